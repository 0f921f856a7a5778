package apply

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	pauses "github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// incident is an event that a projection could not apply, and the decision about it.
type incident struct {
	failed.Failure
	policy  projection.Policy
	outcome failed.Outcome // set once it is written
}

// describe returns what is stored of an error on e. Of a database error it keeps the message: details quote rows.
func (a *Applier) describe(k *registry.Projection, e *event.Event, err error) failed.Failure {
	f := failed.Failure{
		Group: a.Cfg.ConsumerGroup, Projection: k.Name, Version: k.Described.Version,
		CampaignID: e.CampaignID, Seq: e.Seq, EventID: e.ID, EventType: e.Type,
		Class: string(k.Classify(err)), Code: failure.CodeError, Worker: a.Host + "/" + a.Keeper.Owner,
	}
	var own interface{ FailureCode() string }
	var pgErr *pgconn.PgError
	kept := err
	switch {
	case errors.As(err, &own):
		f.Code = own.FailureCode()
	case errors.As(err, &pgErr):
		f.Code, kept = pgErr.Code, errors.New(redact.Postgres(pgErr))
	case failure.IsDecoding(err):
		f.Code = failure.CodeDecode
	}
	if panicked, ok := errors.AsType[*failure.PanicError](err); ok {
		f.Stack = redact.Stack(panicked.Stack)
	}
	f.Message = redact.Error(kept, e)
	f.Fingerprint = failed.Fingerprint(f.Code, f.Message)
	if other, putOff := errors.AsType[*failure.PutOffError](err); putOff {
		f.Fingerprint = other.Fingerprint
	}
	return f
}

// fail records that a projection could not apply e. The end of the transaction writes what follows.
func (t *Transaction) fail(k *registry.Projection, e *event.Event, cause error) *incident {
	f := &incident{Failure: t.Applier.describe(k, e, failure.Cause(cause)), policy: k.Policy(e.Type)}
	if failure.Later(cause) { // no policy may skip what cannot be read
		f.policy = projection.DefaultPolicy()
	}
	if failure.Waits(projection.Class(f.Class)) {
		f.policy.Action = projection.ActionRetry // the event has not failed, so its policy does not matter
	}
	if f.Class == string(projection.ClassLock) && t.blockers != "" {
		f.Message += "; in the way was " + t.blockers
	}
	t.failures = append(t.failures, f)
	return f
}

// neverSkip says that rows could not be deleted ahead of the event: the projection does not go on
// without that, even if its policy is to skip the event.
func (f *incident) neverSkip() {
	f.Reset = true
	if f.policy.Action == projection.ActionSkip {
		f.policy.Action = projection.ActionRetry
	}
}

// writeFailures queues what follows from the failures: a skip, a deferral, or a pause.
func (t *Transaction) writeFailures() {
	for _, f := range t.failures {
		t.Sync()
		if f.policy.Action == projection.ActionSkip {
			failed.Skip(t.Batch, f.Failure, "policy of projection "+f.Projection)
			continue
		}
		failed.Defer(t.Batch, f.Failure, kind.Schedule(f.policy, f.Failure, rand.Float64()),
			func(o failed.Outcome) { f.outcome = o })
		if f.policy.Action == projection.ActionPause {
			reason := fmt.Sprintf("event %d (%s) of campaign %q failed: %s", f.Seq, f.EventType, f.CampaignID, f.Message)
			pauses.Failed(t.Batch, f.Group, f.Projection, f.Worker, reason)
		}
	}
}

// report counts and logs the failures that have been committed.
func (t *Transaction) report(ctx context.Context) {
	if len(t.failures) > 0 {
		t.Applier.Tracer.Of(ctx).Fail(fmt.Sprintf("%d projections of campaigns failed", len(t.failures)))
	}
	for _, f := range t.failures {
		t.Applier.Metrics.Projections.Failed.WithLabelValues(f.Projection).Inc()
		log := t.Applier.Cfg.Logger.With("projection", f.Projection, "campaign", f.CampaignID, "seq", f.Seq, "event_type",
			f.EventType, "class", f.Class, "code", f.Code,
			"fingerprint", f.Fingerprint, "error", f.Message)
		switch {
		case f.policy.Action == projection.ActionSkip:
			t.Applier.Metrics.Projections.Skipped.WithLabelValues(f.Projection).Inc()
			log.ErrorContext(ctx, "projection failed, event skipped")
			continue
		case f.outcome.Status == failed.Dead:
			t.Applier.Metrics.Projections.Dead.WithLabelValues(f.Projection).Inc()
			log.ErrorContext(ctx, "projection failed, campaign is dead: it waits for an operator",
				"attempt", f.outcome.Attempt)
			continue
		}
		log = log.With("attempt", f.outcome.Attempt, "next_attempt", f.outcome.NextAttempt)
		switch {
		case f.Class == string(projection.ClassLock):
			log.WarnContext(ctx, "projection waits for a lock, it will be tried again")
		case f.Class == string(projection.ClassInfrastructure):
			log.WarnContext(ctx, "projection waits for the infrastructure, it will be tried again")
		case f.policy.Action == projection.ActionPause:
			log.ErrorContext(ctx, "projection failed, paused until it is resumed")
		default:
			log.WarnContext(ctx, "projection failed, it will be tried again", "attempts", f.policy.Attempts)
		}
	}
}
