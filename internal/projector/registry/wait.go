package registry

import (
	"context"
	"time"
)

// Sleep waits for d. It returns false if ctx ends first.
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

// Earliest returns the earlier of two times. A zero time means none.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Signal leaves a token for the next wait unless one is there.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Awoken is the cause of the end of a sleep, for metrics.
type Awoken string

// The causes.
const (
	Elapsed  Awoken = "polled"
	Notified Awoken = "notified" // by an append
	Finished Awoken = "released" // a worker released a campaign that was in the way
)
