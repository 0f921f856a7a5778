package projector

import (
	"context"
	"math/rand/v2"
	"time"
)

// random is from 0 to 1, for the jitter of retries.
func (b *base) random() float64 { return rand.Float64() }

// backoff is the wait before going on after a failure of the infrastructure: full jitter, up to 5 seconds.
func (b *base) backoff(failures int) time.Duration {
	limit := min(50*time.Millisecond<<min(failures, 10), 5*time.Second)
	return time.Millisecond + time.Duration(rand.Int64N(int64(limit)))
}

// pause waits; it returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// signal leaves a token that somebody will find; one is enough.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
