package admin

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/deferred"
)

// errNothing ends an act that has changed nothing: nothing of it is kept.
var errNothing = errors.New("nothing was changed")

// choice is what an act on many pairs is asked for.
type choice struct {
	PairFilter
	Limit int `json:"limit,omitempty"`
}

func choiceOf(f deferred.Filter) choice {
	c := choice{Limit: f.Limit, PairFilter: PairFilter{
		Group: f.Group, Projection: f.Projection, CampaignID: f.CampaignID, EventType: f.EventType, Class: f.Class,
		Code: f.Code, Fingerprint: f.Fingerprint, Message: f.MessagePattern,
	}}
	for _, s := range f.Status {
		c.Status = append(c.Status, string(s))
	}
	if f.OlderThan != 0 {
		c.OlderThan = f.OlderThan.String()
	}
	if f.NewerThan != 0 {
		c.NewerThan = f.NewerThan.String()
	}
	return c
}

// RequeueAll requeues the pairs that a filter chooses, in one transaction, and answers them. Errors
// are those of [deferred.RequeueAll].
func (a *Acts) RequeueAll(ctx context.Context, r Request, f deferred.Filter) ([]deferred.Key, error) {
	return a.onPairs(ctx, act{
		Request: r, kind: ActRequeue, request: choiceOf(f),
		about: subject{CampaignID: f.CampaignID},
	}, func(ctx context.Context, tx pgx.Tx) ([]deferred.Key, error) {
		return deferred.RequeueAll(ctx, tx, f, r.deferred())
	})
}

// ResolveAll leaves out, for good, the events that the pairs stand before which a filter chooses,
// in one transaction, and answers the pairs; it needs a reason. Errors are those of
// [deferred.ResolveAll].
func (a *Acts) ResolveAll(ctx context.Context, r Request, f deferred.Filter) ([]deferred.Key, error) {
	t := act{Request: r, kind: ActResolve, request: choiceOf(f), about: subject{CampaignID: f.CampaignID}, reason: true}
	return a.onPairs(ctx, t, func(ctx context.Context, tx pgx.Tx) ([]deferred.Key, error) {
		return deferred.ResolveAll(ctx, tx, f, r.deferred())
	})
}

// eventRequest is the event that pairs stand before.
type eventRequest struct {
	Group      string `json:"group,omitempty"` // "": all
	CampaignID string `json:"campaign_id"`
	Seq        int64  `json:"seq"`
}

// Requeued is the detail of [Acts.RequeueEvent]: the pairs that are tried again, in the order of their projections.
type Requeued struct {
	CampaignID  string   `json:"campaign_id"`
	Seq         int64    `json:"seq"`
	Projections []string `json:"projections"`
}

// RequeueEvent requeues the pairs that stand before an event, in one group or in all. The outcome's
// detail is [Requeued]. Errors are those of [deferred.RequeueSeq].
func (a *Acts) RequeueEvent(ctx context.Context, r Request, group, campaignID string, seq int64) (*Outcome, error) {
	t := act{
		Request: r, kind: ActRequeue, request: eventRequest{group, campaignID, seq},
		about: subject{CampaignID: campaignID, Seq: seq},
	}
	return a.do(ctx, t, func(ctx context.Context, tx pgx.Tx) (any, error) {
		keys, err := deferred.RequeueSeq(ctx, tx, group, campaignID, seq, r.deferred())
		done := Requeued{CampaignID: campaignID, Seq: seq, Projections: []string{}}
		for _, k := range keys {
			done.Projections = append(done.Projections, k.Projection)
		}
		return done, err
	})
}

// onPairs does an act on pairs. Whom it has to answer them to has no use for an idempotency key:
// the log keeps how many they were, and failure_log which.
func (a *Acts) onPairs(
	ctx context.Context, t act, do func(ctx context.Context, tx pgx.Tx) ([]deferred.Key, error),
) (keys []deferred.Key, err error) {
	_, err = a.do(ctx, t, func(ctx context.Context, tx pgx.Tx) (any, error) {
		if keys, err = do(ctx, tx); err == nil && len(keys) == 0 {
			err = errNothing
		}
		return countResult{int64(len(keys))}, err
	})
	if errors.Is(err, errNothing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return keys, nil
}
