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
	idle, failures, announced := 0, 0, false
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
			idle, announced = 0, false
			continue
		}
		wait := p.wait(idle)
		if wait >= listenAfter && !announced && !p.cfg.NoListen {
			// What was appended before the wait was known was not notified: claim once more.
			announced = true
			bounded, cancel := p.bounded(ctx)
			if err := lease.Wait(bounded, p.cfg.Pool, p.cfg.PollInterval*2); err != nil && ctx.Err() == nil {
				p.cfg.Logger.WarnContext(ctx, "polling only", "error", err)
			}
			cancel()
			continue
		}
		p.sleep(ctx, wait, retry)
		idle, announced = idle+1, false
	}
}

// wait is how long to wait after so many claims in vain: milliseconds after there was work, then ever longer up to the poll interval.
func (p *Projector) wait(idle int) time.Duration {
	wait := min(time.Millisecond<<min(idle, 20), p.cfg.PollInterval)
	return time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
}

// sleep waits, unless an append or a due retry ends it.
func (p *Projector) sleep(ctx context.Context, wait time.Duration, retry time.Time) {
	if !retry.IsZero() {
		wait = min(wait, max(time.Until(retry), time.Millisecond))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-p.wake:
	case <-timer.C:
	}
}

// lookBehind is how often, under load, retries are looked for.
const lookBehind = 100 * time.Millisecond

// listenAfter is how long a wait must be to be worth a notification.
const listenAfter = 16 * time.Millisecond

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
	for len(units) > 0 {
		k := min(size, len(units))
		if !p.assign(ctx, work, units[:k]) {
			p.giveBack(ctx, units)
			return n, time.Time{}, ctx.Err()
		}
		units = units[k:]
	}
	if n > 0 && time.Since(p.lookedBehind) < lookBehind {
		return n, time.Time{}, nil
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
