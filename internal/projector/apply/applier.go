package apply

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// Applier applies groups of units, each group in one transaction, and finds what failed.
type Applier struct {
	*registry.Base
	Holder  *Holder
	Pace    *Pace
	Breaker *Breaker
	Share   *Share // bounds the time spent on rebuilds

	small       atomic.Bool  // the last group read had small events
	before      atomic.Int64 // events of the last group read
	Unreadable  atomic.Int64 // groups still to be read carefully, to find an event that cannot be read
	Savepoints  atomic.Int64 // groups still to be applied savepointed
	uncommitted atomic.Int64 // savepointed groups that still look ahead to COMMIT, because one has failed
	alone       sync.RWMutex // read-locked by groups, locked by suspects
}

// The ways to apply a group.
const (
	batched     = "batched"     // all in one pipeline, for groups that are not expected to fail
	savepointed = "savepointed" // in parts with a savepoint each: one pass finds every failure
	isolated    = "isolated"    // one campaign after the other, each in its own transaction
)

// choose returns the strategy for a group, and the reason. Batched groups that fail are retried
// savepointed, then isolated. [Applier.ApplySuspect] applies campaigns that may end the process.
func (a *Applier) choose(units []*Unit) (strategy, reason string) {
	switch {
	case retried(units):
		return savepointed, "a failed campaign is tried again"
	case a.Savepoints.Load() > 0:
		return savepointed, "there were failures recently"
	}
	return batched, "there were no failures recently"
}

// Group applies one group, in opened if that has read the group already, and returns the units left.
func (a *Applier) Group(ctx context.Context, units []*Unit, opened *Transaction) (rest []*Unit, err error) {
	start, n := time.Now(), 0
	defer func() { a.Share.Spend(units, time.Since(start)) }()
	ctx, span := a.Tracer.Start(ctx)
	defer func() { span.End(n, err) }()
	strategy, reason := a.choose(units)
	a.Cfg.Logger.DebugContext(ctx, "group is applied", "strategy", strategy, "reason", reason, "campaigns", len(units))
	ahead := Assignment{Opened: opened}
	apply := a.applySavepointed
	if strategy == batched {
		apply = func(ctx context.Context, units []*Unit) (int, []*Unit, error) {
			return a.applyBatched(ctx, units, ahead.Take())
		}
	} else {
		ahead.Drop(ctx)
	}
	units, n, done, err := a.applyUnlessLost(ctx, units, apply)
	// Savepoints show whose statement waits, so a lock timeout of our own statements is retried too.
	if strategy == batched && err != nil && (a.isolable(ctx, err) || failure.OwnLockTimeout(err)) {
		a.Cfg.Logger.WarnContext(ctx, "group failed, isolating the cause", "strategy", savepointed, "campaigns", len(units),
			"error", err)
		a.Savepoints.Store(savepointsAfter)
		units, n, done, err = a.applyUnlessLost(ctx, units, a.applySavepointed)
	}
	_, tooSlow := errors.AsType[*SlowReadError](err)
	switch {
	case len(units) == 0:
		return nil, nil
	case err == nil:
		rest = units[len(done):]
		if last := done[len(done)-1]; last.More && last.groups == 1 && !last.probes() {
			rest = units[len(done)-1:]
		}
	case a.Infrastructure(ctx, err) && !errors.Is(err, lease.ErrLost) && !tooSlow:
		a.Pace.shrink()
		return nil, err
	default:
		if !errors.Is(err, lease.ErrLost) {
			a.Cfg.Logger.WarnContext(ctx, "group failed, applying its campaigns one by one", "strategy", isolated,
				"campaigns", len(units), "error", err)
		}
		size := a.Pace.Events()
		if tooSlow {
			a.Pace.shrink()
			size = 1
		}
		if late, ok := errors.AsType[*failure.DeadlineError](err); ok {
			a.Pace.shrink()
			if size = a.Pace.Events(); late.Tried.Lost {
				size = 1 // code that did not return is unlikely to return for half as many
			}
		}
		if n, err = a.applyIsolated(ctx, units, size); err != nil {
			a.Pace.shrink()
			return nil, err
		}
	}
	a.succeeded(ctx, n)
	a.Metrics.Groups.Duration.Observe(time.Since(start).Seconds())
	a.Pace.observe(len(units)-len(rest), n)
	return rest, nil
}

// succeeded records that a group has applied n events.
func (a *Applier) succeeded(ctx context.Context, n int) {
	a.Breaker.Succeeded(ctx)
	a.Pace.grow()
	a.Applied.Add(int64(n))
	a.Metrics.Groups.Count(n)
}

// applying applies as many of the units as fit in a group. It returns the number of events and the units applied.
type applying func(ctx context.Context, units []*Unit) (n int, done []*Unit, err error)

// isolable reports whether one event may have caused a group's failure, and can be found while
// others go on. A deadline's cause cannot: the search takes too long.
func (a *Applier) isolable(ctx context.Context, err error) bool {
	var late *failure.DeadlineError
	return !errors.Is(err, lease.ErrLost) && !errors.As(err, &late) && !a.Infrastructure(ctx, err)
}

// applyUnlessLost calls apply. If apply fails because leases were lost, or because another
// transaction has locked them for long, applyUnlessLost drops those units and calls apply again
// with the rest. It returns the units that are still held.
func (a *Applier) applyUnlessLost(
	ctx context.Context, units []*Unit, apply applying,
) (leased []*Unit, n int, done []*Unit, err error) {
	for len(units) > 0 {
		n, done, err = apply(ctx, units)
		if !errors.Is(err, lease.ErrLost) && !failure.OwnLockTimeout(err) {
			return units, n, done, err
		}
		ids, lookErr := a.Keeper.StillHeld(ctx, a.Cfg.Pool, leasesOf(units))
		if lookErr != nil {
			return units, 0, nil, lookErr
		}
		leased := slices.DeleteFunc(slices.Clone(units), func(u *Unit) bool {
			return !slices.Contains(ids, u.Lease.CampaignID)
		})
		if len(leased) == len(units) {
			return units, 0, nil, err // the lease at fault is unknown: one by one
		}
		for _, u := range Without(units, leased) {
			a.leaseLost(ctx, u)
		}
		units = leased
	}
	return nil, 0, nil, nil
}

// applyBatched applies as many of the units as fit in a group, in one transaction: t, if that has read them.
//
// A COMMIT without an answer may have happened. Its error counts as the infrastructure's, so
// nothing is redone from this process's memory: the crew drops the units and gives their leases
// back. The next worker to claim the campaigns, perhaps this one, reads the checkpoint and the
// places of campaigns that are behind from the database. If that claim overtakes the COMMIT, the fence
// lets only one of them through: both write the lease row.
func (a *Applier) applyBatched(ctx context.Context, units []*Unit, t *Transaction) (n int, done []*Unit, err error) {
	if t == nil {
		if t, err = a.open(ctx, units, a.Pace.Events(), a.Calls()); err != nil {
			return 0, nil, err
		}
	}
	if t.splittable() {
		a.Cfg.Logger.DebugContext(ctx, "group is applied", "strategy", savepointed,
			"reason", "it is large, so savepoints cost little", "campaigns", len(t.Units))
		return a.savepointed(ctx, t, false)
	}
	defer t.Abort(ctx)
	t.link(ctx)
	a.Cfg.OnStep(kind.StepRead)
	if err := t.applyAll(ctx); err != nil {
		return 0, nil, err
	}
	a.Cfg.OnStep(kind.StepApplied)
	n = t.count()
	if err := t.finish(ctx); err != nil {
		a.Uninstall(ctx, err)
		return 0, nil, err
	}
	a.Cfg.OnStep(kind.StepCommitted)
	return n, t.Units, nil
}

// yields reports whether a unit with more to do makes way for others at the end of the group. A unit
// cut off at the end of a group goes on, once. A failed campaign that gets past its event is claimed
// again, as one behind.
func yields(u *Unit) bool { return u.groups > 0 || u.probes() }

// Without returns the units that are not among others.
func Without(units, others []*Unit) []*Unit {
	return slices.DeleteFunc(slices.Clone(units), func(u *Unit) bool { return slices.Contains(others, u) })
}
