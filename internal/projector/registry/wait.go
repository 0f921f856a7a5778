package registry

import (
	"context"
	"time"
)

// Sleep waits; it returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Earliest answers the earlier of two times; the zero time is none.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Signal leaves a token for the next wait; one is enough.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Awoken is what ended a sleep, as metrics say it.
type Awoken string

// The ends of a sleep.
const (
	Elapsed  Awoken = "polled"
	Notified Awoken = "notified" // by an append
	Finished Awoken = "released" // a worker has given back what was in the way
)
