package claim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// Claimer claims campaigns that have work, and hands them to the crew.
type Claimer struct {
	*registry.Base
	Holder   *apply.Holder
	Applier  *apply.Applier
	Crew     *Crew
	Listener *Listener

	cursor       string
	recent       lease.Recent
	around       time.Time // when to claim around the outbox again; zero: always
	turned       time.Time // when campaigns in turn were last looked at
	idle         time.Time // since when claims find nothing; zero: the last one has found work
	dead         int64     // rows of the outbox, by the last claim from recent events
	lookedBehind time.Time
}

// Dispatch claims campaigns and hands them to the workers, one claim ahead of them.
func (c *Claimer) Dispatch(ctx context.Context, work chan<- apply.Assignment) {
	loop := pulse.Of(ctx)
	defer loop.Rest()
	idle, woken := 0, false
	calm := true                   // the last claim came all around
	var announced, quiet time.Time // when appends were last asked to notify, and when to ask again
	var named time.Time            // when a notification first named the last request
	for ctx.Err() == nil {
		if c.Holder.Drained.Load() {
			loop.Rest()
			registry.Sleep(ctx, drainedWait)
			continue
		}
		loop.Within(c.Promises.Around)
		trial := c.Applier.Breaker.Pass(ctx)
		how := claiming{trial: trial, ahead: woken && !trial && c.Crew.working.Load() == 0 &&
			c.Applier.Savepoints.Load() <= 0}
		woken = false
		// A claim first asks appends to notify and then looks, so appends that it misses notify. A
		// worker just woken does not ask: its last request is valid until awakeAfter is over.
		now := time.Now()
		stands := how.ahead && now.Sub(named) < awakeAfter/2
		if calm && !stands && c.Listener.listening.Load() && now.After(quiet) && now.Sub(announced) > announceEvery {
			announced, quiet, how.ask = now, now.Add(c.Cfg.PollInterval), c.Cfg.PollInterval*2
		}
		n, next, err := c.claim(ctx, work, how)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			quiet = time.Time{}
			if c.Applier.Breaker.Failed(ctx, err) {
				wait := c.Backoff(0)
				c.Cfg.Logger.WarnContext(ctx, "claim failed", "error", err, "wait", wait)
				registry.Sleep(ctx, wait)
			}
			continue
		}
		calm = next.around
		if how.ask > 0 {
			c.Listener.asked.Store(announced.UnixNano())
		}
		if trial && n > 0 {
			loop.Rest() // the worker that has the campaign makes its own promise
			c.Applier.Breaker.Settle(ctx)
			continue
		}
		if trial {
			c.Applier.Breaker.Succeeded(ctx) // nothing to try, but the database has answered
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
		awoken := c.sleep(ctx, c.wait(idle), next.retry)
		c.Metrics.Worker.Wakeups.WithLabelValues(string(awoken)).Inc()
		switch awoken {
		case registry.Notified:
			woken, idle, quiet = true, 0, time.Time{} // the listener ends the wait
			if !named.After(announced) {
				named = time.Now()
			}
		case registry.Elapsed:
			idle++
		case registry.Finished:
		}
	}
}

const (
	// lookBehind is the shortest time between two looks for retries.
	lookBehind = 50 * time.Millisecond

	// drainedWait is how often a drained worker checks whether to go on.
	drainedWait = 500 * time.Millisecond

	// Once a claim around the outbox meets more dead rows than this, plus so many for each campaign that
	// it finds (a few milliseconds, and a quarter each), others are claims from recent events: until the
	// rows are gone. While there is no work, claims around still get a twentieth of the time. See
	// docs/adr/0020.
	aroundShare  = 20
	freeDead     = 10_000
	freeDeadEach = 1000
	aroundIdle   = time.Second

	// Claims from recent events look at so many other campaigns in turn, so often: a fiftieth of the time.
	turnSize  = 16
	turnEvery = 10 * time.Millisecond

	// announceEvery is the shortest time between requests for notifications, and so between notifications.
	announceEvery = 4 * time.Millisecond

	// announcedIdle is where waits start if a notification would end them: 8 ms. busyIdle is where
	// they start after a claim that found work: 2 ms, for events appended during the request.
	announcedIdle = 3
	busyIdle      = 1
)

// wait returns how long to wait after so many claims without work: milliseconds at first, then
// longer each time, up to the poll interval.
func (c *Claimer) wait(idle int) time.Duration {
	wait := min(time.Millisecond<<min(idle, 20), c.Cfg.PollInterval)
	return time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
}

// sleep waits until the time is over, a retry is due, or there is reason to look.
func (c *Claimer) sleep(ctx context.Context, wait time.Duration, retry time.Time) registry.Awoken {
	// A retry that is due by this clock, but was not claimed, is held or not yet due by the
	// database's clock. It is looked for at the usual pace.
	if until := time.Until(retry); !retry.IsZero() && until > 0 {
		wait = min(wait, until)
	}
	select {
	case <-c.Listener.Wake:
		return registry.Notified
	case <-c.Crew.Free:
		return registry.Finished
	case <-ctx.Done():
	case <-time.After(wait):
	}
	return registry.Elapsed
}

// following is how to go on after a claim.
type following struct {
	retry  time.Time // when to look again, at the latest; zero: nothing known
	around bool      // it has come all around: nothing else to claim for now
	again  bool      // a campaign that was in the way is free now
}

// claiming is how to claim.
type claiming struct {
	trial bool          // one campaign only
	ahead bool          // also read the first group, which is all that is claimed
	ask   time.Duration // first ask appends to notify for so long; 0: do not ask
}

// claim leases campaigns and hands them to the workers, about a group at a time. It returns their number.
func (c *Claimer) claim(
	ctx context.Context, work chan<- apply.Assignment, how claiming,
) (n int, next following, err error) {
	start, finishes := time.Now(), c.Crew.finishes.Load()
	size, most := c.Applier.Pace.Assignment()
	if how.trial {
		most = 1
	}
	bounded, cancel := c.Whole(ctx)
	var claimed lease.Claimed
	var first apply.Assignment
	busy := c.dead > freeDead && (c.idle.IsZero() || time.Since(c.idle) < aroundIdle)
	recent := !c.around.IsZero() && !c.Draining && (busy || start.Before(c.around))
	c.recent.Known = append(c.recent.Known, c.Crew.takeLeft()...)
	switch {
	case recent:
		c.recent.Turn = 0
		if start.Sub(c.turned) >= turnEvery {
			c.recent.Turn, c.turned = turnSize, start
		}
		claimed, err = c.Keeper.ClaimRecent(bounded, c.Cfg.Pool, c.recent, most, how.ask)
	case how.ahead:
		claimed, first, err = c.claimAhead(bounded, min(size, most), how.ask)
	default:
		claimed, err = c.Keeper.Claim(bounded, c.Cfg.Pool, c.cursor, most, how.ask)
	}
	cancel()
	c.Metrics.Worker.Claim.Observe(time.Since(start).Seconds())
	if err != nil {
		return 0, following{}, err
	}
	if len(claimed.Leases) > 0 {
		c.idle = time.Time{}
	} else if c.idle.IsZero() {
		c.idle = time.Now()
	}
	switch {
	case recent:
		c.recent, c.dead = claimed.Recent, claimed.Dead
	case claimed.Dead > freeDead+freeDeadEach*int64(len(claimed.Leases)):
		c.cursor, c.dead, c.around = claimed.Cursor, claimed.Dead, time.Now().Add(aroundShare*time.Since(start))
	default:
		c.cursor, c.recent, c.around = claimed.Cursor, lease.Recent{}, time.Time{}
	}
	// A worker that finishes later signals; one that finished meanwhile may have freed what was in the way.
	c.Crew.inTheWay.Store(!claimed.Retry.IsZero())
	next = following{retry: claimed.Retry, around: claimed.Cursor == "", again: !claimed.Retry.IsZero() &&
		c.Crew.finishes.Load() != finishes}
	leases := c.Holder.Hold(claimed.Leases, start)
	if first.Opened != nil && len(leases) == len(first.Units) {
		if !c.assign(ctx, work, first) {
			first.Drop(ctx)
			c.Holder.GiveBack(ctx, first.Units)
			return len(leases), following{}, ctx.Err()
		}
		return len(leases), next, nil
	}
	first.Drop(ctx)
	units := slice.Of(leases, apply.Live)
	n = len(units)
	for parts := (n + size - 1) / size; parts > 0; parts-- {
		k := (len(units) + parts - 1) / parts // parts of equal size
		if !c.assign(ctx, work, apply.Assignment{Units: units[:k]}) {
			c.Holder.GiveBack(ctx, units)
			return n, following{}, ctx.Err()
		}
		units = units[k:]
	}
	if how.trial && n > 0 {
		return n, next, nil
	}
	if (!c.Draining || n > 0) && time.Since(c.lookedBehind) < lookBehind {
		next.retry = registry.Earliest(next.retry, c.lookedBehind.Add(lookBehind))
		return n, next, nil
	}
	c.lookedBehind = time.Now()
	behind, due, err := c.claimBehind(ctx, work, c.Seen.Load().Names, most)
	next.retry = registry.Earliest(next.retry, due)
	// Rebuilds come last, and within their share.
	if v := c.Seen.Load(); err == nil && behind < most && len(v.Rebuilding) > 0 {
		alone := c.Draining && n+behind == 0 && c.Crew.working.Load() == 0 // Drain leaves nothing undone
		if wait := c.Applier.Share.Wait(time.Now()); wait > 0 && !alone {
			next.retry = registry.Earliest(next.retry, time.Now().Add(wait))
			return n + behind, next, nil
		}
		var rebuilt int
		rebuilt, due, err = c.claimBehind(ctx, work, v.Rebuilding, most-behind)
		behind += rebuilt
		next.retry = registry.Earliest(next.retry, due)
	}
	next.around = next.around && behind < most
	return n + behind, next, err
}

// claimBehind leases the projections' deferred campaigns that are due by the database's clock.
func (c *Claimer) claimBehind(
	ctx context.Context, work chan<- apply.Assignment, projections []string, most int,
) (n int, due time.Time, err error) {
	start := time.Now()
	bounded, cancel := c.Whole(ctx)
	defer cancel()
	claimed, err := c.Keeper.ClaimBehind(bounded, c.Cfg.Pool, projections, most)
	if err != nil {
		return 0, time.Time{}, err
	}
	leases := c.Holder.Hold(claimed.Leases, start)
	if len(leases) == 0 {
		return 0, claimed.Retry, nil
	}
	units, err := c.dueFailed(bounded, leases, projections)
	if err != nil {
		c.Holder.GiveBackLeases(ctx, leases)
		return 0, time.Time{}, err
	}
	if !c.assign(ctx, work, apply.Assignment{Units: units}) {
		c.Holder.GiveBackLeases(ctx, leases)
		return 0, time.Time{}, ctx.Err()
	}
	return len(units), claimed.Retry, nil
}

func (c *Claimer) assign(ctx context.Context, work chan<- apply.Assignment, a apply.Assignment) bool {
	c.Crew.working.Add(1)
	loop := pulse.Of(ctx)
	loop.Rest() // until a worker is free; workers make their own promises
	select {
	case work <- a:
		loop.Within(c.Promises.Around)
		return true
	case <-ctx.Done():
		c.Crew.working.Add(-1)
		return false
	}
}

// Drain claims until two claims in a row find nothing, with no work under way between them.
func (c *Claimer) Drain(ctx context.Context, work chan<- apply.Assignment) error {
	for quiet := 0; quiet < 2; {
		idle := c.Crew.working.Load() == 0
		n, _, err := c.claim(ctx, work, claiming{})
		switch {
		case err != nil:
			return err
		case n > 0:
			quiet = 0
		case idle:
			quiet++
		default:
			quiet = 0
			select {
			case <-c.Crew.Free:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// dueFailed returns the catch-up units of campaigns just leased. It limits failed campaigns to one event.
func (c *Claimer) dueFailed(ctx context.Context, leases []lease.Lease, projections []string) ([]*apply.Unit, error) {
	units, err := c.Applier.Due(ctx, c.Cfg.Pool, leases, projections)
	if err != nil {
		return nil, err
	}
	due := make(map[string]bool, len(leases))
	for _, u := range units {
		due[u.Lease.CampaignID] = true
		if u.Standing.Failed {
			u.Probe()
			c.Metrics.Projections.Retried.WithLabelValues(u.Standing.Projection).Inc()
		}
	}
	if len(due) < len(leases) { // another worker was quicker with the rest
		c.Holder.GiveBackLeases(ctx, slices.DeleteFunc(slices.Clone(leases),
			func(l lease.Lease) bool { return due[l.CampaignID] }))
	}
	return units, nil
}

// claimAhead claims about one group and reads its events in one round trip, for a worker that was
// just woken. That takes a third off the time from an append to its effect. The claim commits by
// itself: if the process dies of what it has claimed, the leases show it.
func (c *Claimer) claimAhead(
	ctx context.Context, most int, ask time.Duration,
) (claimed lease.Claimed, a apply.Assignment, err error) {
	conn, err := c.Cfg.Pool.Acquire(ctx)
	if err != nil {
		return lease.Claimed{}, apply.Assignment{}, fmt.Errorf("acquire a connection: %w", err)
	}
	t := c.Applier.On(conn, nil, c.Calls())
	t.Claimed = true
	t.Queue(apply.QueryBegin)
	c.Keeper.ClaimAhead(t.Batch, c.cursor, most, ask, func(got lease.Claimed) {
		claimed, a.Units = got, slice.Of(got.Leases, apply.Live)
		t.Units = a.Units
	})
	t.Queue(apply.QueryCommitBegin)
	t.QueueSettings()
	err = t.Read(ctx, c.Applier.Pace.Events())
	if err == nil && len(a.Units) > 0 && !claimed.Suspicious() {
		a.Opened = t
		return claimed, a, nil
	}
	t.Abort(ctx)
	if len(a.Units) == 0 {
		return claimed, a, err
	}
	// If the read has failed, the worker that reads again finds out why.
	if err := c.Keeper.Suspects(ctx, c.Cfg.Pool, claimed); err != nil {
		c.Holder.GiveBackLeases(ctx, claimed.Leases)
		return lease.Claimed{}, apply.Assignment{}, err
	}
	for i, l := range claimed.Leases {
		a.Units[i] = apply.Live(l)
	}
	return claimed, a, nil
}
