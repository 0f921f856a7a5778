// Package pace has the waits of loops and the signals that end them.
package pace

import (
	"context"
	"time"
)

// Backoff returns the wait after consecutive failures: 100 ms, doubled up to limit, ± up to a quarter.
func Backoff(failures int, limit time.Duration, random float64) time.Duration {
	d := min(100*time.Millisecond<<min(max(failures-1, 0), 20), limit)
	return time.Duration(float64(d) * (0.75 + random/2))
}

// Signal leaves a token for the next wait. It never blocks: one token is enough.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Wait returns false if ctx ends first.
func Wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
