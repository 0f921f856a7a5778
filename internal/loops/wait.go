// Package loops has what loops share: waits, the signals that end them, and liveness.
//
// A [Pulse] finds loops that are stuck, without a query, for liveness probes. A loop promises when it
// will be back, or rests while it waits for user code, which may take any time. A loop that breaks its
// promise is stuck.
package loops

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Rated waits until so many events are due at a rate, in events a second since began. It returns false if
// ctx ends first.
func Rated(ctx context.Context, began time.Time, events int64, rate int) bool {
	return Sleep(ctx, time.Until(began.Add(time.Duration(float64(events)/float64(rate)*float64(time.Second)))))
}

// Backoff returns the wait after consecutive failures, the first of which is 1: first, doubled up to most,
// up to a quarter more or less.
func Backoff(failures int, first, most time.Duration) time.Duration {
	d := min(first<<min(max(failures-1, 0), 20), most)
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}

// Signal leaves a token for the next wait unless one is there.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Earliest returns the earlier of two times. A zero time means none.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
