package projector

import (
	"context"
	"errors"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lease"
)

// isolate redoes a group that failed, one unit at a time, with a savepoint around each projection, so that the rest goes on and only the
// culprit is deferred. It returns an error only for the infrastructure's failures; a unit whose lease is lost is dropped.
func (p *Projector) isolate(ctx context.Context, units []*unit, events int) (applied int, err error) {
	for i := 0; i < len(units); {
		// Several pairs of one campaign share a lease, and so a transaction.
		n := 1
		for i+n < len(units) && units[i+n].lease.CampaignID == units[i].lease.CampaignID {
			n++
		}
		done, err := p.applyIsolated(ctx, units[i:i+n], events)
		applied += done
		switch {
		case errors.Is(err, lease.ErrLost):
			p.metrics.lost.Add(float64(n))
			p.cfg.Logger.WarnContext(ctx, "lease lost, work dropped", "campaign", units[i].lease.CampaignID, "generation", units[i].lease.Generation)
		case err != nil:
			return applied, err
		}
		i += n
	}
	return applied, nil
}

func (p *Projector) applyIsolated(ctx context.Context, units []*unit, events int) (int, error) {
	t, err := p.begin(ctx, units, events)
	if err != nil {
		return 0, err
	}
	defer t.abort(ctx)
	applied := 0
	for _, u := range t.units {
		applied += len(u.events)
		for _, k := range p.projections {
			if err := t.applyApart(ctx, k, u); err != nil {
				return 0, err
			}
		}
	}
	if err := t.finish(ctx, always); err != nil {
		return 0, err
	}
	for _, d := range t.deferrals {
		p.metrics.failed.WithLabelValues(d.Projection).Inc()
		p.cfg.Logger.ErrorContext(ctx, "projection failed, deferred", "projection", d.Projection, "campaign", d.CampaignID, "seq", d.Seq,
			"event_type", d.EventType, "error", d.Err)
	}
	return applied, nil
}

// always gives every lease back.
func always(*unit) bool { return true }

// applyApart applies a unit's events to one projection inside a savepoint. If that fails for any reason of its own it finds the event, keeps what came
// before it, and defers the pair.
func (t *transaction) applyApart(ctx context.Context, k *known, u *unit) error {
	events, err := t.wanted(k, []*unit{u})
	if err != nil {
		events = nil
	}
	if err == nil {
		if len(events) == 0 {
			return nil
		}
		if err = t.attempt(ctx, k, events); err == nil {
			return nil
		}
	}
	if t.broken(err) {
		return err
	}
	for _, e := range u.events {
		if !k.wants(&e) {
			continue
		}
		err := u.spoiled[e.Seq]
		if err == nil {
			err = t.attempt(ctx, k, []journal.Event{e})
		}
		if t.broken(err) {
			return err
		}
		if err != nil {
			return t.deferPair(ctx, k, e, err)
		}
	}
	return nil
}

// attempt applies events inside a savepoint, which it rolls back to if they fail.
func (t *transaction) attempt(ctx context.Context, k *known, events []journal.Event) error {
	if err := t.exec(ctx, "SAVEPOINT tidemark"); err != nil {
		return err
	}
	g := &Group{Events: events, projection: k.spec.Name, pipeline: t.pipeline}
	err := t.p.load(ctx, k, g)
	if err == nil {
		err = t.flush(ctx)
	}
	if err == nil {
		err = t.p.apply(ctx, k, g)
	}
	if err == nil {
		err = t.flush(ctx)
	}
	if err == nil {
		return t.exec(ctx, "RELEASE SAVEPOINT tidemark")
	}
	if t.broken(err) {
		return err
	}
	*t.pipeline = *newPipeline(t.conn) // what was queued after the failure
	if err := t.exec(ctx, "ROLLBACK TO SAVEPOINT tidemark"); err != nil {
		return err
	}
	return err
}

// broken says whether the failure is the infrastructure's: the transaction is beyond repair, and nobody's fault.
func (t *transaction) broken(err error) bool {
	return err != nil && (t.conn.IsClosed() || IsInfrastructure(err))
}

// deferPair writes, in the unit's transaction, that the projection stands before e.
func (t *transaction) deferPair(ctx context.Context, k *known, e journal.Event, cause error) error {
	failure := &ApplyError{Projection: k.spec.Name, CampaignID: e.CampaignID, Seq: e.Seq, EventType: e.Type, Err: cause}
	var inner *ApplyError
	if errors.As(cause, &inner) {
		failure.Err = inner.Err
	}
	class, message, stack := describe(failure.Err)
	t.deferrals = append(t.deferrals, failure)
	t.at = origin{}
	t.queue(queryDefer, e.CampaignID, k.spec.Name, t.p.cfg.ConsumerGroup, e.Seq, class, message, stack,
		t.p.jitter(), t.p.cfg.RetryMax.Seconds(), t.p.cfg.RetryBase.Seconds())
	return t.flush(ctx)
}
