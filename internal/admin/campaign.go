package admin

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// replayRequest is what is applied again.
type replayRequest struct {
	Group      string   `json:"group"`
	Projection string   `json:"projection,omitempty"`
	Campaigns  []string `json:"campaigns"`
	From       int64    `json:"from,omitempty"`
}

type countResult struct {
	Count int64 `json:"count"`
}

// ReplayCampaigns has a projection, or all of a group, apply events of up to 5000 campaigns again.
// Errors are those of [failed.Replay]. A replay is stopped by pausing the campaign or the
// projection, and goes on when that is resumed.
func (a *Acts) ReplayCampaigns(ctx context.Context, r Request, replay failed.ReplayRequest) (*Outcome, error) {
	if replay.Group == "" || len(replay.Campaigns) == 0 || replay.From < 0 {
		return nil, fmt.Errorf("%w: name the group, at least one campaign, and a seq of 1 or more, or 0 for from scratch",
			ErrInvalid)
	}
	asked := replayRequest{
		Group: replay.Group, Projection: replay.Projection, Campaigns: replay.Campaigns,
		From: replay.From,
	}
	about := subject{Seq: replay.From}
	if len(replay.Campaigns) == 1 {
		about.CampaignID = replay.Campaigns[0]
	}
	return a.do(ctx, act{Request: r, kind: ActReplay, about: about, request: asked},
		func(ctx context.Context, tx pgx.Tx) (any, error) {
			n, err := failed.Replay(ctx, tx, replay, r.act())
			return Filing{n}, err
		})
}

// RepairGap files a work item for the gap of one campaign, if there is one. Errors are
// [outbox.ErrNotRegistered], [journal.ErrNotFound], and those of [outbox.RepairGap]. An operation
// repairs all gaps of a group.
func (a *Acts) RepairGap(ctx context.Context, r Request, group, campaignID string) (*Outcome, error) {
	if group == "" || campaignID == "" {
		return nil, fmt.Errorf("%w: name the group and the campaign", ErrInvalid)
	}
	asked := pauseRequest{Group: group, CampaignID: campaignID}
	return a.do(ctx, act{Request: r, kind: ActRepairGaps, about: subject{CampaignID: campaignID}, request: asked},
		func(ctx context.Context, tx pgx.Tx) (any, error) {
			if err := knownGroup(ctx, tx, group); err != nil {
				return nil, err
			}
			if _, err := journal.Last(ctx, tx, campaignID); err != nil {
				return nil, err
			}
			checkpoints, err := lease.Checkpoints(ctx, tx, group, []string{campaignID})
			if err != nil {
				return nil, err
			}
			return asked, outbox.RepairGap(ctx, tx, outbox.Gap{
				Group: group, CampaignID: campaignID,
				Checkpoint: checkpoints[campaignID],
			}, r.Who.Name, r.Reason)
		})
}
