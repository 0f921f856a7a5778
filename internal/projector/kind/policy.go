package kind

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/store/failed"
)

// Action is projector.Action.
type Action string

// The actions. Package projector documents them.
const (
	ActionRetry Action = "retry"
	ActionDead  Action = "dead"
	ActionSkip  Action = "skip"
	ActionPause Action = "pause"
)

// Policy is projector.Policy.
type Policy struct {
	Action   Action        // default [ActionRetry]
	Attempts int           // failures at one event after which a campaign is dead; default 8
	Base     time.Duration // wait after the first failure; default 1s, at least 1ms
	Max      time.Duration // longest wait; default 5m, at least Base
	Factor   float64       // ratio of each wait to the one before; default 2, from 1 to 100
	Timeout  time.Duration // for applying one group; default [Config].ApplyTimeout
}

// DefaultPolicy holds the defaults for fields that no wider policy sets.
var DefaultPolicy = Policy{ //nolint:gochecknoglobals // a constant
	Action: ActionRetry, Attempts: 8, Base: time.Second, Max: 5 * time.Minute, Factor: 2,
}

// CompletePolicy fills the zero fields of p from wider.
func CompletePolicy(p, wider Policy) Policy {
	return Policy{
		Action: cmp.Or(p.Action, wider.Action), Attempts: cmp.Or(p.Attempts, wider.Attempts),
		Base: cmp.Or(p.Base, wider.Base), Max: cmp.Or(p.Max, wider.Max),
		Factor: cmp.Or(p.Factor, wider.Factor), Timeout: cmp.Or(p.Timeout, wider.Timeout),
	}
}

// Validate returns the mistakes of a policy. Zero fields take the defaults.
func (p Policy) Validate() error { return CheckPolicy(CompletePolicy(p, DefaultPolicy)) }

// CheckPolicy returns the mistakes of a policy without zero fields.
func CheckPolicy(p Policy) error {
	var errs []error
	switch p.Action {
	case ActionRetry, ActionDead, ActionSkip, ActionPause:
	default:
		errs = append(errs, fmt.Errorf("action %q: use %s, %s, %s or %s", p.Action, ActionRetry, ActionDead, ActionSkip,
			ActionPause))
	}
	if p.Attempts < 1 || p.Attempts > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("attempts is %d: use 1 … %d", p.Attempts, math.MaxInt32))
	}
	if p.Base < time.Millisecond {
		errs = append(errs, fmt.Errorf("base is %v: use at least 1ms", p.Base))
	}
	if p.Max < p.Base {
		errs = append(errs, fmt.Errorf("max is %v: use at least base, which is %v", p.Max, p.Base))
	}
	if !(p.Factor >= 1 && p.Factor <= 100) { // NaN too
		errs = append(errs, fmt.Errorf("factor is %v: use 1 … 100", p.Factor))
	}
	if p.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout is %v: use a time above zero", p.Timeout))
	}
	return errors.Join(errs...)
}

const jitter = 0.1

// mostWaits bounds the waits sent to the database per failure. If waits still grow after that many,
// the factor is too small to matter.
const mostWaits = 64

// waits returns the waits after the first failure, the second …; the last one repeats. Each is
// min(base × factor^(n-1), max), times 1 ± a tenth. random is from 0 to 1.
func (p Policy) waits(random float64) []time.Duration {
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
func Schedule(p Policy, f failed.Failure, random float64) failed.Schedule {
	switch class := failure.Class(f.Class); {
	case class == failure.ClassInfrastructure:
		return waiting(firstWait, outageWait)
	case failure.Waits(class), f.Code == failure.CodeWrappingKey:
		return waiting(firstWait, lockWait)
	}
	s := failed.Schedule{Attempts: p.Attempts, Waits: p.waits(random)}
	switch p.Action {
	case ActionDead:
		s.Dead = true
	case ActionPause:
		s.Attempts = math.MaxInt32
	default:
		s.Dead = failure.Class(f.Class) == failure.ClassPermanent
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
