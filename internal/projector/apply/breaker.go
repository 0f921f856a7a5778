package apply

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// breakerThreshold is how many failures of a worker's requests in a row open its breaker. One lost
// connection often counts twice, for a group and for giving its leases back, and proves nothing.
const breakerThreshold = 3

// breakerState is the value of the metric tidemark_breaker_state.
type breakerState int

const (
	breakerClosed   breakerState = iota // claims go on
	breakerHalfOpen                     // one campaign is tried
	breakerOpen                         // nothing is claimed
)

// Breaker keeps one worker away from a database that fails: claims and groups ask it first. It
// opens after breakerThreshold failures in a row, waits longer each time, and then lets one
// campaign be tried. Any success closes it. These failures cost no event an attempt.
type Breaker struct {
	log     *slog.Logger
	gauge   prometheus.Gauge
	backoff func(failures int) time.Duration

	mu       sync.Mutex
	state    breakerState
	failures int           // in a row
	until    time.Time     // end of the wait, while it is open
	changed  chan struct{} // closed at the next change of state
}

// NewBreaker returns a closed breaker.
func NewBreaker(log *slog.Logger, gauge prometheus.Gauge, backoff func(int) time.Duration) *Breaker {
	return &Breaker{log: log, gauge: gauge, backoff: backoff, changed: make(chan struct{})}
}

// Pass waits while the breaker is open. It reports whether the caller's next claim is a trial: the
// caller then takes one campaign and waits with [Breaker.Settle].
func (b *Breaker) Pass(ctx context.Context) (trial bool) {
	for ctx.Err() == nil {
		b.mu.Lock()
		state, wait, changed := b.state, time.Until(b.until), b.changed
		if state == breakerOpen && wait <= 0 {
			b.change(breakerHalfOpen)
			state = breakerHalfOpen
			b.log.InfoContext(ctx, "breaker half-open: one campaign is tried", "failures", b.failures)
		}
		b.mu.Unlock()
		if state != breakerOpen {
			return state == breakerHalfOpen
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(wait):
		}
	}
	return false
}

// Settle waits until the trial has ended.
func (b *Breaker) Settle(ctx context.Context) {
	b.mu.Lock()
	state, changed := b.state, b.changed
	b.mu.Unlock()
	if state == breakerHalfOpen {
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Open reports whether workers give work back instead of beginning it.
func (b *Breaker) Open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == breakerOpen
}

// Failed counts a failure. It reports whether the caller logs it: of an open breaker, only changes are news.
func (b *Breaker) Failed(ctx context.Context, err error) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	switch {
	case b.state == breakerOpen:
		return false
	case b.state == breakerClosed && b.failures < breakerThreshold:
		return true
	}
	wait := b.backoff(b.failures - breakerThreshold)
	b.until = time.Now().Add(wait)
	b.log.WarnContext(ctx, "breaker open: nothing is claimed", "failures", b.failures, "wait", wait, "error", err)
	b.change(breakerOpen)
	return false
}

// Succeeded closes the breaker.
func (b *Breaker) Succeeded(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != breakerClosed {
		b.log.InfoContext(ctx, "breaker closed", "failures", b.failures)
		b.change(breakerClosed)
	}
	b.failures = 0
}

// change sets the state. The caller holds b.mu.
func (b *Breaker) change(to breakerState) {
	b.state = to
	b.gauge.Set(float64(to))
	close(b.changed)
	b.changed = make(chan struct{})
}
