package kind

import (
	"math"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

const jitter = 0.1

// mostWaits bounds the waits sent to the database per failure. If waits still grow after that many,
// the factor is too small to matter.
const mostWaits = 64

// waitsOf returns the waits after the first failure, the second …; the last one repeats. Each is
// min(base × factor^(n-1), max), times 1 ± a tenth. random is from 0 to 1.
func waitsOf(p projection.Policy, random float64) []time.Duration {
	spread := 1 + jitter*(2*random-1)
	var waits []time.Duration
	for n := range mostWaits {
		wait := math.Min(float64(p.Base)*math.Pow(p.Factor, float64(n)), float64(p.Max))
		waits = append(waits, time.Duration(math.Min(wait*spread, math.MaxInt64/2)))
		if wait >= float64(p.Max) || p.Factor == 1 {
			break
		}
	}
	return waits
}

// Schedule returns the retry schedule of a failed campaign.
func Schedule(p projection.Policy, f failed.Failure, random float64) failed.Schedule {
	switch class := projection.Class(f.Class); {
	case class == projection.ClassInfrastructure:
		return waiting(firstWait, outageWait)
	case failure.Waits(class), f.Code == failure.CodeWrappingKey:
		return waiting(firstWait, lockWait)
	}
	s := failed.Schedule{Attempts: p.Attempts, Waits: waitsOf(p, random)}
	switch p.Action {
	case projection.ActionDead:
		s.Dead = true
	case projection.ActionPause:
		s.Attempts = math.MaxInt32
	default:
		s.Dead = projection.Class(f.Class) == projection.ClassPermanent
	}
	return s
}

// The waits for what is no event's fault. They grow with the time that it lasts: see queryDefer.
const (
	firstWait  = time.Second
	lockWait   = 10 * time.Second // the longest, for a lock of another session or a wrapping key
	outageWait = time.Minute      // the longest, for the infrastructure
)

// waiting returns a schedule that counts no attempt.
func waiting(first, longest time.Duration) failed.Schedule {
	return failed.Schedule{Attempts: math.MaxInt32, Waits: []time.Duration{first, longest}, Free: true}
}
