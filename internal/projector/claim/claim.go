package claim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// claiming is what the dispatcher asks of a claim.
type claiming struct {
	trial bool          // one campaign only
	ahead bool          // also read the first group, which is all that is claimed
	ask   time.Duration // first ask appends to notify for so long; 0: do not ask
}

// following is how to go on after a claim.
type following struct {
	retry  time.Time // when to look again, at the latest; zero: nothing known
	around bool      // it has come all around: nothing else to claim for now
	again  bool      // a campaign that was in the way is free now
}

// claim leases campaigns and hands them to the workers, about a group at a time: those with live work, then those
// that are behind. It returns their number.
func (c *Claimer) claim(
	ctx context.Context, work chan<- apply.Assignment, how claiming,
) (n int, next following, err error) {
	finishes := c.Crew.finishes.Load()
	size, most := c.Applier.Pace.Assignment()
	if how.trial {
		most = 1
	}
	live, err := c.claimLive(ctx, how, size, most)
	if err != nil {
		return 0, following{}, err
	}
	// A worker that finishes later signals; one that finished meanwhile may have freed what was in the way.
	c.Crew.inTheWay.Store(!live.Retry.IsZero())
	next = following{
		retry: live.Retry, around: live.Cursor == "",
		again: !live.Retry.IsZero() && c.Crew.finishes.Load() != finishes,
	}
	n, whole, err := c.handOut(ctx, work, live, size)
	if err != nil {
		return n, following{}, err
	}
	if whole || how.trial && n > 0 {
		return n, next, nil
	}
	behind, due, err := c.claimBehind(ctx, work, most, n)
	next.retry = loops.Earliest(next.retry, due)
	next.around = next.around && behind < most
	return n + behind, next, err
}

// claimed is the answer to a claim of campaigns with live work.
type claimed struct {
	lease.Claimed
	asked time.Time        // before the claim
	first apply.Assignment // its group, if that was read with it
}

// claimLive leases up to most campaigns with live work, or about size of them if it also reads their events.
func (c *Claimer) claimLive(ctx context.Context, how claiming, size, most int) (got claimed, err error) {
	got.asked = time.Now()
	by, reason := c.past.choose(how.ahead, c.Draining, got.asked)
	if (by == recent) != (c.past.by == recent) {
		c.Cfg.Logger.DebugContext(ctx, "campaigns are claimed in another way", "strategy", string(by), "reason", reason)
	}
	c.past.recent.Known = append(c.past.recent.Known, c.Crew.takeLeft()...)
	bounded, cancel := c.Whole(ctx)
	defer cancel()
	switch by {
	case recent:
		c.past.takeTurn(got.asked)
		got.Claimed, err = c.Keeper.ClaimRecent(bounded, c.Cfg.Pool, c.past.recent, most, how.ask)
	case ahead:
		got.Claimed, got.first, err = c.claimAhead(bounded, min(size, most), how.ask)
	case around:
		got.Claimed, err = c.Keeper.Claim(bounded, c.Cfg.Pool, c.past.cursor, most, how.ask)
	}
	now := time.Now()
	c.Metrics.Worker.Claim.Observe(now.Sub(got.asked).Seconds())
	if err != nil {
		return claimed{}, err
	}
	c.past.note(by, got.Claimed, got.asked, now)
	return got, nil
}

// claimAhead claims about one group and reads its events in one round trip, for a worker that was
// just woken. That takes a third off the time from an append to its effect. The claim commits by
// itself: if the process dies of what it has claimed, the leases show it.
func (c *Claimer) claimAhead(
	ctx context.Context, most int, ask time.Duration,
) (got lease.Claimed, a apply.Assignment, err error) {
	conn, err := c.Cfg.Pool.Acquire(ctx)
	if err != nil {
		return lease.Claimed{}, apply.Assignment{}, fmt.Errorf("acquire a connection: %w", err)
	}
	t := c.Applier.On(conn, nil, c.Calls())
	t.Claimed = true
	t.Queue(apply.QueryBegin)
	c.Keeper.ClaimAhead(t.Batch, c.past.cursor, most, ask, func(answer lease.Claimed) {
		got, a.Units = answer, slice.Of(answer.Leases, apply.Live)
		t.Units = a.Units
	})
	t.Queue(apply.QueryCommitBegin)
	t.QueueSettings()
	err = t.Read(ctx, c.Applier.Pace.Events())
	if err == nil && len(a.Units) > 0 && !got.Suspicious() {
		a.Opened = t
		return got, a, nil
	}
	t.Abort(ctx)
	if len(a.Units) == 0 {
		return got, a, err
	}
	// If the read has failed, the worker that reads again finds out why.
	if err := c.Keeper.Suspects(ctx, c.Cfg.Pool, got); err != nil {
		c.Holder.GiveBackLeases(ctx, got.Leases)
		return lease.Claimed{}, apply.Assignment{}, err
	}
	for i, l := range got.Leases {
		a.Units[i] = apply.Live(l)
	}
	return got, a, nil
}

// handOut takes charge of claimed campaigns and hands them to the workers: the group that was read with the claim
// as a whole, others in parts of about size campaigns. It returns their number.
func (c *Claimer) handOut(
	ctx context.Context, work chan<- apply.Assignment, live claimed, size int,
) (n int, whole bool, err error) {
	leases := c.Holder.Hold(live.Leases, live.asked)
	if live.first.Opened != nil && len(leases) == len(live.first.Units) {
		if err := c.assign(ctx, work, live.first); err != nil {
			live.first.Drop(ctx)
			c.Holder.GiveBack(ctx, live.first.Units)
			return len(leases), true, err
		}
		return len(leases), true, nil
	}
	live.first.Drop(ctx)
	units := slice.Of(leases, apply.Live)
	for parts := (len(units) + size - 1) / size; parts > 0; parts-- {
		k := (len(units) + parts - 1) / parts // parts of equal size
		if err := c.assign(ctx, work, apply.Assignment{Units: units[:k]}); err != nil {
			c.Holder.GiveBack(ctx, units)
			return len(leases), false, err
		}
		units = units[k:]
	}
	return len(leases), false, nil
}

// assign hands an assignment to a worker. It fails if ctx ends before one is free.
func (c *Claimer) assign(ctx context.Context, work chan<- apply.Assignment, a apply.Assignment) error {
	c.Crew.working.Add(1)
	loop := loops.Of(ctx)
	loop.Rest() // until a worker is free; workers make their own promises
	select {
	case work <- a:
		loop.Within(c.Promises.Around)
		return nil
	case <-ctx.Done():
		c.Crew.working.Add(-1)
		return ctx.Err()
	}
}

// claimBehind leases campaigns in which projections are behind and a retry is due, then those of rebuilds, within
// their share, and hands them out. live campaigns were claimed just before. It returns their number, and when to
// look again.
func (c *Claimer) claimBehind(
	ctx context.Context, work chan<- apply.Assignment, most, live int,
) (n int, due time.Time, err error) {
	now := time.Now()
	if again := c.lookedBehind.Add(lookBehind); now.Before(again) && (!c.Draining || live > 0) {
		return 0, again, nil
	}
	c.lookedBehind = now
	n, due, err = c.claimBehindOf(ctx, work, c.Seen.Load().Names, most)
	rebuilding := c.Seen.Load().Rebuilding
	if err != nil || n >= most || len(rebuilding) == 0 {
		return n, due, err
	}
	alone := c.Draining && live+n == 0 && c.Crew.working.Load() == 0 // Drain leaves nothing undone
	if wait := c.Applier.Share.Wait(time.Now()); wait > 0 && !alone {
		return n, loops.Earliest(due, time.Now().Add(wait)), nil
	}
	rebuilt, later, err := c.claimBehindOf(ctx, work, rebuilding, most-n)
	return n + rebuilt, loops.Earliest(due, later), err
}

// claimBehindOf leases campaigns in which some projections are behind, if they are due by the database's clock.
func (c *Claimer) claimBehindOf(
	ctx context.Context, work chan<- apply.Assignment, projections []string, most int,
) (n int, due time.Time, err error) {
	asked := time.Now()
	bounded, cancel := c.Whole(ctx)
	defer cancel()
	got, err := c.Keeper.ClaimBehind(bounded, c.Cfg.Pool, projections, most)
	if err != nil {
		return 0, time.Time{}, err
	}
	leases := c.Holder.Hold(got.Leases, asked)
	if len(leases) == 0 {
		return 0, got.Retry, nil
	}
	units, err := c.dueFailed(bounded, leases, projections)
	if err == nil {
		err = c.assign(ctx, work, apply.Assignment{Units: units})
	}
	if err != nil {
		c.Holder.GiveBackLeases(ctx, leases)
		return 0, time.Time{}, err
	}
	return len(units), got.Retry, nil
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
