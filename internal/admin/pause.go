package admin

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/pause"
)

// pauseRequest is what is paused or resumed.
type pauseRequest struct {
	Group      string `json:"group"`
	Projection string `json:"projection,omitempty"`
	CampaignID string `json:"campaign_id,omitempty"`
	For        string `json:"for,omitempty"` // a Go duration; "": until it is resumed
}

// Pause stops a consumer group, a projection or a campaign for d, or until it is resumed if d is 0.
// Errors are those of [pause.Set].
func (a *Acts) Pause(ctx context.Context, r Request, target pause.Target, d time.Duration) (*Outcome, error) {
	return a.pause(ctx, r, ActPause, target, d)
}

// Resume ends a pause. Errors are those of [pause.Resume].
func (a *Acts) Resume(ctx context.Context, r Request, target pause.Target) (*Outcome, error) {
	return a.pause(ctx, r, ActResume, target, 0)
}

func (a *Acts) pause(
	ctx context.Context, r Request, kind Kind, target pause.Target, d time.Duration,
) (*Outcome, error) {
	asked := pauseRequest{Group: target.Group, Projection: target.Projection, CampaignID: target.CampaignID}
	if d != 0 {
		asked.For = d.String()
	}
	t := act{Request: r, kind: kind, about: subject{CampaignID: target.CampaignID}, request: asked}
	return a.do(ctx, t, func(ctx context.Context, tx pgx.Tx) (any, error) {
		if kind == ActResume || kind == ActResumeRebuild {
			return asked, pause.Resume(ctx, tx, target, r.Who.Name, r.Reason)
		}
		return asked, pause.Set(ctx, tx, target, r.Who.Name, r.Reason, d)
	})
}
