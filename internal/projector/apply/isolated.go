package apply

import (
	"context"
	"errors"
	"slices"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// applyIsolated redoes a group that failed, one campaign at a time, so that the rest goes on and only
// the culprit is deferred. It returns an error only for the infrastructure's failures; a unit whose
// lease is lost is dropped.
func (a *Applier) applyIsolated(ctx context.Context, units []*Unit, events int) (applied int, err error) {
	for len(units) > 0 {
		n := OfOneCampaign(units)
		done, err := a.applyCampaignInTime(ctx, units[:n], events, map[failure.Verdict]error{}, false)
		applied += done
		if errors.Is(err, lease.ErrLost) {
			a.leaseLost(ctx, units[0])
		} else if err != nil {
			return applied, err
		}
		units = units[n:]
	}
	return applied, nil
}

// leaseLost notes that a unit is dropped, because its lease is another's.
func (a *Applier) leaseLost(ctx context.Context, u *Unit) {
	a.Metrics.Leases.Lost.WithLabelValues(registry.LostTakenOver).Inc()
	a.Cfg.Logger.WarnContext(ctx, "lease lost, work dropped", "campaign", u.Lease.CampaignID,
		"generation", u.Lease.Generation)
}

// applyCampaign applies the units of one campaign savepointed, one projection after the other, and
// gives the lease back. What is marked is not fenced first: a suspect's lease must go on being renewed,
// for by when it was, and when its owner was seen last, the dead are told from the living.
func (a *Applier) applyCampaign(
	ctx context.Context, units []*Unit, events int, verdicts map[failure.Verdict]error, marked bool,
) (int, error) {
	t, err := a.open(ctx, units, events, nil)
	if err != nil {
		return 0, err
	}
	t.verdicts, t.apart, t.marks = verdicts, true, marked
	t.yield = func(*Unit) bool { return true }
	n, _, err := a.savepointed(ctx, t, !marked)
	return n, err
}

// ApplyUpTo applies a unit's events up to the one that fails, or is known to: it answers how many it
// applied, and the cause; nil if none fails.
func (t *Transaction) ApplyUpTo(
	ctx context.Context, k *registry.Projection, u *Unit, events []journal.Event,
) (n int, cause, err error) {
	end := slices.IndexFunc(events, func(e journal.Event) bool { return t.verdict(k, u, &e) != nil })
	if end < 0 {
		return t.find(ctx, k, events)
	}
	if n, cause, err = t.find(ctx, k, events[:end]); err == nil && cause == nil {
		cause = t.verdict(k, u, &events[end])
	}
	return n, cause, err
}

// find applies events up to the one that fails: it answers how many it applied, and the cause; nil
// if none fails. It halves what fails, or goes by what the error says. Events of a suspect go one
// by one, each named by a mark that is committed before.
func (t *Transaction) find(
	ctx context.Context, k *registry.Projection, events []journal.Event,
) (n int, cause, err error) {
	end := len(events)
	from, to := 0, end // one of those between fails, once the range has been narrowed
	hinted := false    // by the error of the last attempt
	for size := end; from < end; {
		if t.marks {
			size = 1
			keeper, pool := t.Applier.Keeper, t.Applier.Cfg.Pool
			if err := keeper.Mark(ctx, pool, t.Units[0].Lease, k.Name, events[from].Seq); err != nil {
				return 0, nil, err
			}
		}
		some := events[from : from+size]
		cause := t.attempt(ctx, k, some)
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
		case t.broken(ctx, k, cause), some[0].CampaignID != some[size-1].CampaignID && t.over(ctx, k, cause):
			return 0, nil, t.Blame(cause)
		case size == 1:
			return from, cause, nil
		}
		to = from + size
		size /= 2
		var named *failure.ApplyError
		if hinted = !hinted && errors.As(cause, &named); hinted {
			if i := slices.IndexFunc(some, func(e journal.Event) bool {
				return e.CampaignID == named.CampaignID && e.Seq == named.Seq
			}); i >= 0 {
				to, size = from+i+1, max(1, i)
			}
		}
	}
	return end, nil, nil
}

// attempt applies events inside a savepoint, which it rolls back to if they fail.
func (t *Transaction) attempt(ctx context.Context, k *registry.Projection, events []journal.Event) error {
	t.LimitStatements(k.Timeout(events))
	err := t.savepoint(ctx, k, func() error { return t.Apply(ctx, k, events) })
	noteLate(err, events)
	return err
}

// savepoint does something for a projection inside a savepoint, which it rolls back to if that fails.
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
	if t.broken(ctx, k, err) {
		return err
	}
	t.Reset() // what was queued after the failure
	if err := t.Exec(ctx, pipeline.QueryRollbackPart); err != nil {
		return err
	}
	return err
}

// looksAhead says whether what COMMIT checks is to be checked at once, so that its failure has a
// culprit: after a COMMIT that failed, and where there will be no COMMIT.
func (t *Transaction) looksAhead() bool { return t.trying || t.Applier.uncommitted.Load() > 0 }

// lookAhead has the server check what a projection leaves to COMMIT.
func (t *Transaction) lookAhead(ctx context.Context, k *registry.Projection) error {
	if !t.looksAhead() {
		return nil
	}
	t.At = pipeline.Origin{Projection: k.Name}
	t.QueueLookAhead()
	return t.Flush(ctx)
}

// notCommitted notes that a transaction whose statements all went through has failed, for a reason
// that is not the infrastructure's: the next ones are applied savepointed, and look ahead.
func (a *Applier) notCommitted(ctx context.Context, err error) {
	var named *failure.ApplyError
	if err == nil || errors.As(err, &named) || errors.Is(err, lease.ErrLost) || a.Infrastructure(ctx, err) {
		return
	}
	a.uncommitted.Store(savepointsAfter)
}
