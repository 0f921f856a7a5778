package projector

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/pkg/lease"
)

// dispatch claims campaigns and hands them to the workers, one claim ahead of them.
func (p *Projector) dispatch(ctx context.Context, work chan<- assignment) {
	defer p.claims.letGo()
	loop := pulse.Of(ctx)
	defer loop.Rest()
	idle, woken := 0, false
	calm := true                   // the last claim came round with room left
	var announced, quiet time.Time // when and until when appends were asked to notify
	var named time.Time            // when a notification first named what they were asked last
	for ctx.Err() == nil {
		if p.drained.Load() {
			p.claims.letGo()
			loop.Rest()
			pause(ctx, drainedWait)
			continue
		}
		loop.Within(p.promises.around)
		trial := p.breaker.pass(ctx)
		how := claiming{trial: trial, ahead: woken && !trial && p.working.Load() == 0 && p.care.Load() <= 0}
		woken = false
		// Asked in the same request and before it looks, so that what the claim does not see is notified, but for what is being appended meanwhile. Who has just been woken does not
		// take the time for it: what was asked stands until awakeAfter is over, and the next claim comes before that.
		now := time.Now()
		stands := how.ahead && now.Sub(named) < awakeAfter/2
		if calm && !stands && p.listening.Load() && now.After(quiet) && now.Sub(announced) > announceEvery {
			announced, quiet, how.ask = now, now.Add(p.cfg.PollInterval), p.cfg.PollInterval*2
		}
		n, next, err := p.claim(ctx, work, how)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			quiet = time.Time{}
			if p.breaker.failed(ctx, err) {
				wait := p.backoff(0)
				p.cfg.Logger.WarnContext(ctx, "claim failed", "error", err, "wait", wait)
				pause(ctx, wait)
			}
			continue
		}
		calm = next.around
		if how.ask > 0 {
			p.asked.Store(announced.UnixNano())
		}
		if trial && n > 0 {
			loop.Rest() // the worker that has the campaign promises
			p.breaker.settle(ctx)
			continue
		}
		if trial {
			p.breaker.succeeded(ctx) // there is nothing to try, and the database said so
		}
		switch {
		case n > 0 && (!calm || !how.ahead && time.Now().After(quiet)) || next.again:
			idle = 0
			continue
		case n > 0:
			idle = busyIdle
		case time.Now().Before(quiet):
			idle = max(idle, announcedIdle)
		}
		p.claims.letGo()
		awoken := p.sleep(ctx, p.wait(idle), next.retry)
		p.metrics.wakeups.WithLabelValues(awoken.String()).Inc()
		switch awoken {
		case notified:
			woken, idle, quiet = true, 0, time.Time{} // the listener ends the wait
			if !named.After(announced) {
				named = time.Now()
			}
		case elapsed:
			idle++
		case finished:
		}
	}
}

const (
	// lookBehind is how often, at most, retries are looked for.
	lookBehind = 50 * time.Millisecond

	// firstClaim is the part of a claim that is one of before anything is known.
	firstClaim = 4

	// drainedWait is how often a worker that was drained looks whether it is to go on.
	drainedWait = 500 * time.Millisecond

	// announceEvery bounds the rate at which a worker asks to be notified, and so that of notifications.
	announceEvery = 4 * time.Millisecond

	// announcedIdle is where the waits begin when a notification would end them: at 8 ms. busyIdle is where they do after a claim that found work: at
	// 2 ms, for what was being appended when notifications were asked for.
	announcedIdle = 3
	busyIdle      = 1
)

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

func (a awoken) String() string {
	switch a {
	case notified:
		return "notified"
	case finished:
		return "released"
	default:
		return "polled"
	}
}

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

// following says how to go on after a claim.
type following struct {
	retry  time.Time // when to look again, at the latest; zero: nothing known
	around bool      // it has come all around: there is nothing else to claim for now
	again  bool      // a campaign that was in the way is so no longer
}

// claiming is how to claim.
type claiming struct {
	trial bool          // one campaign
	ahead bool          // and read the first group, which is all that is claimed
	ask   time.Duration // appends are asked first to notify for so long; 0: they are not
}

// claim leases campaigns and hands them to the workers in assignments of about one group each. It returns how many it leased.
func (p *Projector) claim(ctx context.Context, work chan<- assignment, how claiming) (n int, next following, err error) {
	start, finishes := time.Now(), p.finishes.Load()
	size, most := p.assignment()
	if how.trial {
		most = 1
	}
	bounded, cancel := p.uncut(ctx)
	var claimed lease.Claimed
	var first assignment
	if how.ahead {
		claimed, first, err = p.claimAhead(bounded, min(size, most), how.ask)
	} else {
		claimed, err = p.claimOnly(bounded, most, how.ask)
	}
	cancel()
	p.metrics.claim.Observe(time.Since(start).Seconds())
	if err != nil {
		return 0, following{}, err
	}
	// A worker that finishes after this says so; one that has finished meanwhile may have had what was in the way.
	p.inTheWay.Store(!claimed.Retry.IsZero())
	next = following{retry: claimed.Retry, around: claimed.Cursor == "", again: !claimed.Retry.IsZero() && p.finishes.Load() != finishes}
	p.cursor = claimed.Cursor
	leases := p.hold(claimed.Leases, start)
	if first.opened != nil && len(leases) == len(first.units) {
		if !p.assign(ctx, work, first) {
			first.drop(ctx)
			p.giveBack(ctx, first.units)
			return len(leases), following{}, ctx.Err()
		}
		return len(leases), next, nil
	}
	first.drop(ctx)
	units := make([]*unit, len(leases))
	for i, l := range leases {
		units[i] = live(l)
	}
	n = len(units)
	for parts := (n + size - 1) / size; parts > 0; parts-- {
		k := (len(units) + parts - 1) / parts // parts of one size
		if !p.assign(ctx, work, assignment{units: units[:k]}) {
			p.giveBack(ctx, units)
			return n, following{}, ctx.Err()
		}
		units = units[k:]
	}
	if how.trial && n > 0 {
		return n, next, nil
	}
	if (!p.draining || n > 0) && time.Since(p.lookedBehind) < lookBehind {
		next.retry = earliest(next.retry, p.lookedBehind.Add(lookBehind))
		return n, next, nil
	}
	p.lookedBehind = time.Now()
	behind, due, err := p.claimDeferred(ctx, work, p.seen.Load().names, most)
	next.retry = earliest(next.retry, due)
	// What is being rebuilt comes last, and within its share.
	if v := p.seen.Load(); err == nil && behind < most && len(v.rebuilding) > 0 {
		if wait := p.share.wait(time.Now()); wait > 0 {
			next.retry = earliest(next.retry, time.Now().Add(wait))
			return n + behind, next, nil
		}
		var rebuilt int
		rebuilt, due, err = p.claimDeferred(ctx, work, v.rebuilding, most-behind)
		behind += rebuilt
		next.retry = earliest(next.retry, due)
	}
	next.around = next.around && behind < most
	return n + behind, next, err
}

// claimOnly leaves the reading to the workers.
func (p *Projector) claimOnly(ctx context.Context, most int, ask time.Duration) (lease.Claimed, error) {
	db, err := p.claims.on(ctx, p)
	if err != nil {
		return lease.Claimed{}, err
	}
	claimed, err := p.keeper.Claim(ctx, db, p.cursor, most, ask)
	if err != nil {
		p.claims.letGo()
	}
	return claimed, err
}

// claimDeferred leases campaigns with pairs of projections that are due. The database's clock decides which are.
func (p *Projector) claimDeferred(ctx context.Context, work chan<- assignment, projections []string, most int) (n int, due time.Time, err error) {
	start := time.Now()
	bounded, cancel := p.uncut(ctx)
	defer cancel()
	db, err := p.claims.on(bounded, p)
	if err != nil {
		return 0, time.Time{}, err
	}
	claimed, err := p.keeper.ClaimDeferred(bounded, db, projections, most)
	if err != nil {
		p.claims.letGo()
		return 0, time.Time{}, err
	}
	leases := p.hold(claimed.Leases, start)
	if len(leases) == 0 {
		return 0, claimed.Retry, nil
	}
	units, err := p.duePairs(bounded, leases, projections)
	if err != nil {
		p.giveBackLeases(ctx, leases)
		return 0, time.Time{}, err
	}
	if !p.assign(ctx, work, assignment{units: units}) {
		p.giveBackLeases(ctx, leases)
		return 0, time.Time{}, ctx.Err()
	}
	return len(units), claimed.Retry, nil
}

// bounded is for short requests: no answer to them is worth more time than a lease lives, and a connection that fell silent gives none.
func (p *Projector) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.cfg.LeaseTTL)
}

// uncut is for claims, and for the names that a shadow writes down before it tries. One that is cut off may still lease campaigns, which nobody would give back: they would wait until the leases expire; or
// leave a name, which would look like a death. So whoever is stopped waits for the answer, for as long as for leases to be given back; a drain that fails, for as long as it takes.
func (p *Projector) uncut(ctx context.Context) (context.Context, context.CancelFunc) {
	bounded, cancel := p.bounded(context.WithoutCancel(ctx))
	if p.draining {
		return bounded, cancel
	}
	keep := context.AfterFunc(ctx, func() { time.AfterFunc(releaseTimeout, cancel) })
	return bounded, func() { keep(); cancel() }
}

func (p *Projector) assign(ctx context.Context, work chan<- assignment, a assignment) bool {
	p.working.Add(1)
	loop := pulse.Of(ctx)
	loop.Rest() // until one of the workers, who have promised themselves, is free
	select {
	case work <- a:
		loop.Within(p.promises.around)
		return true
	case <-ctx.Done():
		p.working.Add(-1)
		return false
	}
}

// assignment is how many campaigns make about one group, going by those of late, and how many to claim at once: whole groups, as far as a claim goes. While nothing is
// known of groups a claim is a small one, so that it soon is.
func (p *Projector) assignment() (size, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	most = p.cfg.ClaimCampaigns
	size = int(math.Ceil(float64(p.limit.events()) / max(1, p.average)))
	if p.average == 0 {
		return size, max(1, most/firstClaim)
	}
	return size, max(most/size*size, min(size, most))
}

func (p *Projector) observe(campaigns, events int) {
	if campaigns == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := max(1, float64(events)/float64(campaigns))
	if p.average == 0 {
		p.average = now
	}
	p.average += 0.2 * (now - p.average)
}
