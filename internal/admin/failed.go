package admin

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
)

// Requeue has a pair that failed or is dead tried again at once, as if it had not failed before.
// Errors are those of [failed.Requeue].
func (a Failures) Requeue(ctx context.Context, r Request, key failed.Key) (*Outcome, error) {
	return a.onPair(ctx, r, ActRequeue, key, 0, func(ctx context.Context, tx pgx.Tx, by failed.Act) error {
		return failed.Requeue(ctx, tx, key, by)
	})
}

// Resolve leaves the event out, for good, that the pair stands before; it needs a reason. Errors
// are those of [failed.Resolve].
func (a Failures) Resolve(ctx context.Context, r Request, key failed.Key, seq int64) (*Outcome, error) {
	return a.onPair(ctx, r, ActResolve, key, seq, func(ctx context.Context, tx pgx.Tx, by failed.Act) error {
		return failed.Resolve(ctx, tx, key, seq, by)
	})
}

// Unresolve takes back that an event is left out of a projection in a campaign, which is applied
// anew; it needs a reason. Errors are those of [failed.Unresolve].
func (a Failures) Unresolve(ctx context.Context, r Request, key failed.Key, seq int64) (*Outcome, error) {
	return a.onPair(ctx, r, ActUnresolve, key, seq, func(ctx context.Context, tx pgx.Tx, by failed.Act) error {
		return failed.Unresolve(ctx, tx, key, seq, by)
	})
}

// pairRequest is what an act on a pair is asked for.
type pairRequest struct {
	Projection string `json:"projection"`
	CampaignID string `json:"campaign_id"`
	Seq        int64  `json:"seq,omitempty"`
}

func (a Failures) onPair(
	ctx context.Context, r Request, kind Kind, key failed.Key, seq int64,
	do func(context.Context, pgx.Tx, failed.Act) error,
) (*Outcome, error) {
	if key.Projection == "" || key.CampaignID == "" {
		return nil, fmt.Errorf("%w: name the projection and the campaign", ErrInvalid)
	}
	asked := pairRequest{key.Projection, key.CampaignID, seq}
	t := act{
		Request: r, kind: kind, about: subject{CampaignID: key.CampaignID, Seq: seq}, request: asked,
		reason: kind == ActResolve || kind == ActUnresolve,
	}
	return a.acts.do(ctx, t, func(ctx context.Context, tx pgx.Tx) (any, error) { return asked, do(ctx, tx, r.act()) })
}

// act is who and why, for internal/store/failed.
func (r Request) act() failed.Act { return failed.Act{By: r.Who.Name, Reason: r.Reason} }

// eventRequest is the event that pairs stand before.
type eventRequest struct {
	Group      string `json:"group,omitempty"` // "": all
	CampaignID string `json:"campaign_id"`
	Seq        int64  `json:"seq"`
}

// Requeued is the detail of [Failures.RequeueEvent]: the pairs that are tried again, in the order of their projections.
type Requeued struct {
	CampaignID  string   `json:"campaign_id"`
	Seq         int64    `json:"seq"`
	Projections []string `json:"projections"`
}

// RequeueEvent requeues the pairs that stand before an event, in one group or in all. The outcome's
// detail is [Requeued]. Errors are those of [failed.RequeueSeq].
func (a Failures) RequeueEvent(ctx context.Context, r Request, group, campaignID string, seq int64) (*Outcome, error) {
	t := act{
		Request: r, kind: ActRequeue, request: eventRequest{group, campaignID, seq},
		about: subject{CampaignID: campaignID, Seq: seq},
	}
	return a.acts.do(ctx, t, func(ctx context.Context, tx pgx.Tx) (any, error) {
		keys, err := failed.RequeueSeq(ctx, tx, group, campaignID, seq, r.act())
		done := Requeued{CampaignID: campaignID, Seq: seq, Projections: []string{}}
		for _, k := range keys {
			done.Projections = append(done.Projections, k.Projection)
		}
		return done, err
	})
}
