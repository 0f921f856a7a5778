package apply

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// applyIsolated redoes a failed group one campaign at a time, so only the culprit is behind. It
// drops units whose lease is lost, and returns only errors of the infrastructure.
func (a *Applier) applyIsolated(ctx context.Context, units []*Unit, events int) (applied int, err error) {
	type campaign struct {
		units []*Unit
		solo
	}
	var left []campaign
	for len(units) > 0 {
		n := OfOneCampaign(units)
		left = append(left, campaign{units[:n], solo{events: events, verdicts: map[failure.Verdict]error{}}})
		units = units[n:]
	}
	for len(left) > 0 {
		one := left[0]
		left = left[1:]
		done, err := a.applyCampaignInTime(ctx, one.units, &one.solo)
		applied += done
		slow, tooSlow := errors.AsType[*SlowReadError](err)
		switch {
		case tooSlow && a.patient(ctx, &one.solo, slow):
			left = append(left, one) // the others go first
		case errors.Is(err, lease.ErrLost):
			a.leaseLost(ctx, one.units[0])
		case err != nil:
			return applied, err
		}
	}
	return applied, nil
}

// leaseLost records that a unit is dropped, because its lease has another owner.
func (a *Applier) leaseLost(ctx context.Context, u *Unit) {
	a.Metrics.Leases.Lost.WithLabelValues(registry.LostTakenOver).Inc()
	a.Cfg.Logger.WarnContext(ctx, "lease lost, work dropped", "campaign", u.Lease.CampaignID,
		"generation", u.Lease.Generation)
}

// applyCampaign applies the units of one campaign savepointed, one projection after the other, and
// gives the lease back. The fence runs last: earlier it would block renewals. They keep the lease while
// deadlines are waited for, and with beats they tell a living owner from a dead one.
func (a *Applier) applyCampaign(ctx context.Context, units []*Unit, how *solo) (int, error) {
	t, err := a.openWithin(ctx, units, how.events, nil, how.limit)
	if err != nil {
		return 0, err
	}
	t.verdicts, t.apart, t.marks = how.verdicts, true, how.marked
	t.yield = func(*Unit) bool { return true }
	n, _, err := a.savepointed(ctx, t, false)
	return n, err
}

// ApplyUpTo applies a unit's events up to the first that fails or is known to fail. It returns the
// number applied, and the cause of the failure; nil if none fails.
func (t *Transaction) ApplyUpTo(
	ctx context.Context, k *registry.Projection, u *Unit, events kind.Events,
) (n int, cause, err error) {
	end := slices.IndexFunc(events.All, func(e event.Event) bool { return t.verdict(k, u, &e) != nil })
	if end < 0 {
		return t.find(ctx, k, events)
	}
	if n, cause, err = t.find(ctx, k, events.Part(0, end)); err == nil && cause == nil {
		cause = t.verdict(k, u, &events.All[end])
	}
	return n, cause, err
}

// find applies events up to the first that fails. It returns the number applied, and the cause of
// the failure; nil if none fails. It narrows a failing range to the event that the error names, or
// halves it. Events of a suspect go one by one, each named by a mark that is committed before.
func (t *Transaction) find(
	ctx context.Context, k *registry.Projection, events kind.Events,
) (n int, cause, err error) {
	end := len(events.All)
	from, to := 0, end // the culprit is between them, once the range has been narrowed
	hinted := false    // the last error named the event to try next
	for size := end; from < end; {
		if t.marks {
			size = 1
			keeper, pool := t.Applier.Keeper, t.Applier.Cfg.Pool
			if err := keeper.Mark(ctx, pool, t.Units[0].Lease, k.Name, events.All[from].Seq); err != nil {
				return 0, nil, err
			}
		}
		cause := t.attempt(ctx, k, events.Part(from, from+size))
		some := events.All[from : from+size]
		switch {
		case cause == nil:
			from += size
			if from == to {
				to = end
			}
			size, hinted = to-from, false
			if to < end && size > 1 {
				size /= 2
			}
			continue
		case t.broken(ctx, cause), some[0].CampaignID != some[size-1].CampaignID && t.over(ctx, cause):
			return 0, nil, t.Blame(cause)
		case size == 1:
			return from, cause, nil
		}
		to = from + size
		size /= 2
		var named *projection.ApplyError
		if hinted = !hinted && errors.As(cause, &named); hinted {
			if i := slices.IndexFunc(some, func(e event.Event) bool {
				return e.CampaignID == named.CampaignID && e.Seq == named.Seq
			}); i >= 0 {
				to, size = from+i+1, max(1, i)
			}
		}
	}
	return end, nil, nil
}

// attempt applies events inside a savepoint, and rolls back to it if they fail.
func (t *Transaction) attempt(ctx context.Context, k *registry.Projection, events kind.Events) error {
	t.LimitStatements(k.Timeout(events.All))
	start := time.Now()
	err := t.savepoint(ctx, k, func() error { return t.Apply(ctx, k, events) })
	t.took = time.Since(start)
	noteLate(err, events.All)
	return err
}

// savepoint calls do for a projection inside a savepoint, and rolls back to it if do fails.
func (t *Transaction) savepoint(ctx context.Context, k *registry.Projection, do func() error) error {
	t.At = pipeline.Origin{}
	t.queuePatience()
	if err := t.Exec(ctx, pipeline.QuerySavepointPart); err != nil {
		return err
	}
	defer t.watchLocks(ctx)()
	err := do()
	if err == nil {
		err = t.Flush(ctx)
	}
	if err == nil {
		err = t.lookAhead(ctx, k)
	}
	if err == nil {
		return t.Exec(ctx, pipeline.QueryReleasePart)
	}
	if t.broken(ctx, err) {
		return err
	}
	t.Reset() // statements queued after the failure
	return cmp.Or(t.Exec(ctx, pipeline.QueryRollbackPart), err)
}

// looksAhead reports whether the checks of COMMIT run at once, so that a failure has a culprit:
// after a COMMIT that failed, and where no COMMIT follows.
func (t *Transaction) looksAhead() bool { return t.trying || t.Applier.uncommitted.Load() > 0 }

// lookAhead makes the server check now what a projection leaves to COMMIT.
func (t *Transaction) lookAhead(ctx context.Context, k *registry.Projection) error {
	if !t.looksAhead() {
		return nil
	}
	t.At = pipeline.Origin{Projection: k.Name}
	t.QueueLookAhead()
	return t.Flush(ctx)
}

// notCommitted records that a transaction failed at its end on a living connection, though its statements
// went through. The next groups are savepointed and look ahead: what is left to COMMIT may be a projection's.
func (t *Transaction) notCommitted(ctx context.Context, err error) {
	if _, named := errors.AsType[*projection.ApplyError](err); named || errors.Is(err, lease.ErrLost) ||
		errors.Is(err, ledger.ErrLost) || t.Conn.IsClosed() || ctx.Err() != nil {
		return
	}
	t.Applier.Savepoints.Store(savepointsAfter)
	t.Applier.uncommitted.Store(savepointsAfter)
}
