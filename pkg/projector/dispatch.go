package projector

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tidemark-go/tidemark/pkg/lease"
)

// dispatch claims campaigns and hands them to the workers, one claim ahead of them.
func (p *Projector) dispatch(ctx context.Context, work chan<- []*unit) {
	idle, failures := 0, 0
	var announced, quiet time.Time // when and until when appends were asked to notify
	for ctx.Err() == nil {
		n, retry, err := p.claim(ctx, work)
		if err != nil {
			if ctx.Err() == nil {
				wait := p.backoff(failures)
				failures++
				p.cfg.Logger.WarnContext(ctx, "claim failed", "error", err, "wait", wait)
				pause(ctx, wait)
			}
			continue
		}
		failures = 0
		if n > 0 {
			idle = 0
			continue
		}
		now := time.Now()
		if p.listening.Load() && now.After(quiet) && now.Sub(announced) > announceEvery {
			// What was appended before this is known was not notified: claim once more.
			p.announce(ctx)
			announced, quiet = now, now.Add(p.cfg.PollInterval)
			continue
		}
		if now.Before(quiet) {
			idle = max(idle, announcedIdle)
		}
		switch p.sleep(ctx, p.wait(idle), retry) {
		case notified:
			idle, quiet = 0, time.Time{} // the listener has ended the wait
		case elapsed:
			idle++
		case finished:
		}
	}
}

const (
	// lookBehind is how often, at most, retries are looked for.
	lookBehind = 50 * time.Millisecond

	// announceEvery bounds the rate at which a worker asks to be notified, and so that of notifications.
	announceEvery = 4 * time.Millisecond

	// announcedIdle is where the waits begin when a notification would end them: at 8 ms.
	announcedIdle = 3
)

// announce asks appends to notify, for longer than the longest wait.
func (p *Projector) announce(ctx context.Context) {
	bounded, cancel := p.bounded(ctx)
	defer cancel()
	if err := lease.Wait(bounded, p.cfg.Pool, p.cfg.PollInterval*2); err != nil && ctx.Err() == nil {
		p.cfg.Logger.WarnContext(ctx, "polling only", "error", err)
	}
}

// wait is how long to wait after so many claims in vain: milliseconds after there was work, then ever longer up to the poll interval.
func (p *Projector) wait(idle int) time.Duration {
	wait := min(time.Millisecond<<min(idle, 20), p.cfg.PollInterval)
	return time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
}

// awoken is what ended a sleep.
type awoken int

const (
	elapsed  awoken = iota
	notified        // by an append
	finished        // a worker has given back what was in the way
)

// sleep waits until it is time, a retry is due, or there is reason to look.
func (p *Projector) sleep(ctx context.Context, wait time.Duration, retry time.Time) awoken {
	// A retry that is past by this clock and was not claimed is held, or not due by the database's: it is looked for at the usual pace.
	if until := time.Until(retry); !retry.IsZero() && until > 0 {
		wait = min(wait, until)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.wake:
		return notified
	case <-p.free:
		return finished
	case <-ctx.Done():
	case <-timer.C:
	}
	return elapsed
}

// claim leases campaigns and hands them to the workers in assignments of about one group each. It returns how many it leased and when to look again.
func (p *Projector) claim(ctx context.Context, work chan<- []*unit) (n int, retry time.Time, err error) {
	start := time.Now()
	bounded, cancel := p.bounded(ctx)
	claimed, err := p.keeper.Claim(bounded, p.cfg.Pool, p.cursor, p.cfg.ClaimCampaigns)
	cancel()
	p.metrics.claim.Observe(time.Since(start).Seconds())
	if err != nil {
		return 0, time.Time{}, err
	}
	p.cursor = claimed.Cursor
	leases := p.hold(claimed.Leases, start)
	units := make([]*unit, len(leases))
	for i, l := range leases {
		units[i] = live(l)
	}
	n = len(units)
	size := p.assignment()
	for parts := (n + size - 1) / size; parts > 0; parts-- {
		k := (len(units) + parts - 1) / parts // parts of one size
		if !p.assign(ctx, work, units[:k]) {
			p.giveBack(ctx, units)
			return n, time.Time{}, ctx.Err()
		}
		units = units[k:]
	}
	if !p.draining && time.Since(p.lookedBehind) < lookBehind {
		return n, earliest(claimed.Retry, p.lookedBehind.Add(lookBehind)), nil
	}
	p.lookedBehind = time.Now()
	behind, due, err := p.claimDeferred(ctx, work)
	return n + behind, earliest(claimed.Retry, due), err
}

// claimDeferred leases campaigns with retries due. The database's clock decides which are.
func (p *Projector) claimDeferred(ctx context.Context, work chan<- []*unit) (n int, due time.Time, err error) {
	start := time.Now()
	bounded, cancel := p.bounded(ctx)
	defer cancel()
	claimed, err := p.keeper.ClaimDeferred(bounded, p.cfg.Pool, p.names, p.cfg.ClaimCampaigns)
	if err != nil {
		return 0, time.Time{}, err
	}
	leases := p.hold(claimed.Leases, start)
	if len(leases) == 0 {
		return 0, claimed.Retry, nil
	}
	units, err := p.duePairs(bounded, leases)
	if err != nil {
		p.giveBackLeases(ctx, leases)
		return 0, time.Time{}, err
	}
	if !p.assign(ctx, work, units) {
		p.giveBackLeases(ctx, leases)
		return 0, time.Time{}, ctx.Err()
	}
	return len(units), claimed.Retry, nil
}

// bounded is for short requests: no answer to them is worth more time than a lease lives, and a connection that fell silent gives none.
func (p *Projector) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.cfg.LeaseTTL)
}

func (p *Projector) assign(ctx context.Context, work chan<- []*unit, units []*unit) bool {
	p.working.Add(1)
	select {
	case work <- units:
		return true
	case <-ctx.Done():
		p.working.Add(-1)
		return false
	}
}

// assignment is how many campaigns make about one group, going by those of late.
func (p *Projector) assignment() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(max(1, math.Ceil(float64(p.cfg.GroupEvents)/p.average)))
}

func (p *Projector) observe(campaigns, events int) {
	if campaigns == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.average += 0.2 * (max(1, float64(events)/float64(campaigns)) - p.average)
}
