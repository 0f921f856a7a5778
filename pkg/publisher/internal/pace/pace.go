// Package pace is how long loops wait, and what ends it.
package pace

import (
	"context"
	"time"
)

// Backoff is the wait after so many failures in a row: doubled from 100 ms on up to limit, with up
// to a quarter more or less.
func Backoff(failures int, limit time.Duration, random float64) time.Duration {
	d := min(100*time.Millisecond<<min(max(failures-1, 0), 20), limit)
	return time.Duration(float64(d) * (0.75 + random/2))
}

// Signal leaves a token for the next wait; one is enough.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Wait waits; it returns false if ctx ends first.
func Wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
