package apply

import (
	"context"
	"errors"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// applyIsolated redoes a group that failed, one unit at a time, with a savepoint around each
// projection, so that the rest goes on and only the culprit is deferred. It returns an error only for
// the infrastructure's failures; a unit whose lease is lost is dropped.
func (a *Applier) applyIsolated(ctx context.Context, units []*Unit, events int) (applied int, err error) {
	for i := 0; i < len(units); {
		// Several pairs of one campaign share a lease, and so a transaction.
		n := 1
		for i+n < len(units) && units[i+n].Lease.CampaignID == units[i].Lease.CampaignID {
			n++
		}
		done, err := a.applyCampaignInTime(ctx, units[i:i+n], events, map[failure.Verdict]error{}, false)
		applied += done
		switch {
		case errors.Is(err, lease.ErrLost):
			a.Metrics.Leases.Lost.WithLabelValues(registry.LostTakenOver).Inc()
			a.Cfg.Logger.WarnContext(ctx, "lease lost, work dropped", "campaign", units[i].Lease.CampaignID,
				"generation", units[i].Lease.Generation)
		case err != nil:
			return applied, err
		}
		i += n
	}
	return applied, nil
}

func (a *Applier) applyCampaign(
	ctx context.Context, units []*Unit, events int, verdicts map[failure.Verdict]error, marked bool,
) (int, error) {
	t, err := a.begin(ctx, units, events)
	if err != nil {
		return 0, err
	}
	t.verdicts, t.Checks = verdicts, true
	if marked {
		t.mark = func(ctx context.Context, u *Unit, projection string, seq int64) error {
			return a.Keeper.Mark(ctx, a.Cfg.Pool, u.Lease, projection, seq)
		}
	}
	defer t.Abort(ctx)
	t.link(ctx)
	// a suspect's lease must go on being renewed: by when it was, and when its owner was seen last,
	// the dead are told from the living
	if !marked {
		if err := t.fenceFirst(ctx, always); err != nil {
			return 0, err
		}
	}
	applied := 0
	for _, u := range t.Units {
		applied += u.Count()
		for _, k := range t.view.Projections {
			if err := t.applyUnit(ctx, k, u); err != nil {
				return 0, err
			}
		}
	}
	if marked { // no projection has caused it
		if err := a.Keeper.Unmark(ctx, a.Cfg.Pool, units[0].Lease); err != nil {
			return 0, err
		}
	}
	if len(t.failures) > 0 {
		a.Cfg.OnStep(kind.StepDeferring)
	}
	if err := t.finish(ctx, always); err != nil {
		return 0, err
	}
	t.report(ctx)
	return applied, nil
}

// always gives every lease back.
func always(*Unit) bool { return true }

// applyUnit applies a unit's events to one projection. If that fails for any reason of its own it
// finds the event, keeps what came before it, and leaves it to the projection's policy whether that is
// the end.
func (t *Transaction) applyUnit(ctx context.Context, k *registry.Projection, u *Unit) error {
	if !t.applies(k, u) {
		return nil
	}
	t.Use(k) // outside the savepoints: going back to one would put it back too
	if u.Pair != nil && u.Pair.Reset {
		cause := t.savepoint(ctx, k, func() error { return t.resetRows(ctx, k, []*Unit{u}) })
		switch {
		case cause != nil && (len(u.Events) == 0 || t.broken(ctx, k, cause)):
			return t.Blame(cause)
		case cause != nil:
			t.failReset(k, &u.Events[0], cause)
			return nil
		}
	}
	var events []journal.Event
	for _, e := range u.Events {
		if t.Wants(k, &e) {
			events = append(events, e)
		}
	}
	for len(events) > 0 {
		n, cause, err := t.ApplyUpTo(ctx, k, u, events)
		if err != nil || cause == nil {
			return err
		}
		if skipped := t.fail(k, &events[n], cause); !skipped {
			return nil
		}
		events = events[n+1:]
	}
	return nil
}

// ApplyUpTo applies events up to the one that fails: it answers how many it applied, and the cause;
// nil if none fails. It halves what fails, or goes by what the error says, until a single event is
// left, so that one among a thousand costs a dozen savepoints.
func (t *Transaction) ApplyUpTo(
	ctx context.Context, k *registry.Projection, u *Unit, events []journal.Event,
) (n int, cause, err error) {
	if t.mark != nil {
		return t.applyMarked(ctx, k, u, events)
	}
	end := len(events)
	for i := range events {
		if t.verdict(k, u, &events[i]) != nil {
			end = i
			break
		}
	}
	from, to := 0, end // one of those between fails, once the range has been narrowed
	hinted := false    // by the error of the last attempt
	for size := end; from < end; {
		cause := t.attempt(ctx, k, events[from:from+size])
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
		case t.broken(ctx, k, cause):
			return 0, nil, t.Blame(cause)
		case size == 1:
			return from, cause, nil
		}
		to = from + size
		size /= 2
		var named *failure.ApplyError
		if hinted = !hinted && errors.As(cause, &named) && named.Seq > 0; hinted {
			for i := from; i < to; i++ {
				if events[i].Seq == named.Seq {
					to = i + 1
					size = max(1, i-from)
				}
			}
		}
	}
	if end < len(events) {
		return end, t.verdict(k, u, &events[end]), nil
	}
	return end, nil, nil
}

// attempt applies events inside a savepoint, which it rolls back to if they fail.
func (t *Transaction) attempt(ctx context.Context, k *registry.Projection, events []journal.Event) error {
	t.LimitStatements(k.Timeout(events))
	err := t.savepoint(ctx, k, func() error {
		g := t.Group(k, events)
		if err := t.Applier.Load(ctx, k, g); err != nil {
			return err
		}
		if err := t.Flush(ctx); err != nil {
			return err
		}
		return t.Applier.Apply(ctx, k, g)
	})
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
