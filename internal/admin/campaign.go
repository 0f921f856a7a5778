package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/deferred"
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
	More       int      `json:"more,omitempty"` // campaigns that are not named
}

type countResult struct {
	Count int64 `json:"count"`
}

// ReplayCampaigns has a projection, or all of a group, apply events of up to 5000 campaigns again.
// Errors are those of [deferred.Replay]. A replay is stopped by pausing the campaign or the
// projection, and goes on when that is resumed.
func (a *Acts) ReplayCampaigns(ctx context.Context, r Request, replay deferred.ReplayRequest) (*Outcome, error) {
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
			n, err := deferred.Replay(ctx, tx, replay, r.deferred())
			return countResult{n}, err
		})
}

const (
	chunk = 1000 // campaigns whose leases are locked in one transaction
	named = 100  // campaigns that the log names
)

// Replay has a projection, or all of a group, apply events of any number of campaigns again, some
// at a time, and answers how many pairs that makes; no campaigns are all. filed, if there is one,
// is told how far it is. After an error, what was filed stays filed. Errors are those of
// [deferred.Replay].
func (a *Acts) Replay(
	ctx context.Context, r Request, replay deferred.ReplayRequest, filed func(pairs int64),
) (int64, error) {
	asked, about := replayRequest{
		Group: replay.Group, Projection: replay.Projection,
		Campaigns: replay.Campaigns[:min(len(replay.Campaigns), named)], From: replay.From,
	}, subject{Seq: replay.From}
	if asked.More = len(replay.Campaigns) - len(asked.Campaigns); len(replay.Campaigns) == 1 {
		about.CampaignID = replay.Campaigns[0]
	}
	rest := replay.Campaigns
	return a.file(ctx, act{Request: r, kind: ActReplay, about: about, request: asked}, filed,
		func(ctx context.Context, tx pgx.Tx, cursor string) (int64, string, error) {
			if len(replay.Campaigns) == 0 {
				return deferred.ReplayAll(ctx, tx, replay, cursor, chunk, r.deferred())
			}
			some := replay
			some.Campaigns = rest[:min(len(rest), chunk)]
			next := ""
			if rest = rest[len(some.Campaigns):]; len(rest) > 0 {
				next = rest[0]
			}
			n, err := deferred.Replay(ctx, tx, some, r.deferred())
			return n, next, err
		})
}

// Backfill has a projection apply all events of the campaigns that it has nothing of, some
// campaigns at a time, and answers how many that are. filed is as in [Acts.Replay]. Errors are
// those of [deferred.Backfill].
func (a *Acts) Backfill(
	ctx context.Context, r Request, group, projection string, filed func(pairs int64),
) (int64, error) {
	asked := pauseRequest{Group: group, Projection: projection}
	return a.file(ctx, act{Request: r, kind: ActBackfill, request: asked}, filed,
		func(ctx context.Context, tx pgx.Tx, cursor string) (int64, string, error) {
			return deferred.Backfill(ctx, tx, group, projection, cursor, chunk, r.deferred())
		})
}

// file files pairs part by part, each in a transaction of its own, until there is no next one.
func (a *Acts) file(
	ctx context.Context, t act, filed func(int64), part func(ctx context.Context, tx pgx.Tx, cursor string) (n int64,
		next string, err error),
) (n int64, err error) {
	_, err = a.doWith(ctx, t, func(ctx context.Context, db *recorder) (any, error) {
		for cursor := ""; ; {
			var more int64
			err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) (err error) {
				if more, cursor, err = part(ctx, tx, cursor); err == nil && more == 0 {
					err = errNothing
				}
				return err
			})
			if err != nil && !errors.Is(err, errNothing) {
				return nil, err
			}
			if n += more; filed != nil {
				filed(n)
			}
			if cursor == "" {
				return countResult{n}, nil
			}
		}
	})
	return n, err
}

// RepairGaps files a work item for each gap of a group, campaign by campaign. Of each, onGap is
// told what came of it. Errors are those of [outbox.Repair.Run].
func (a *Acts) RepairGaps(ctx context.Context, r Request, group string, onGap func(outbox.Gap, error)) error {
	_, err := a.doWith(ctx, act{Request: r, kind: ActRepairGaps, request: GapRepair{group}},
		func(ctx context.Context, db *recorder) (any, error) {
			_, err := outbox.Repair{Group: group, By: r.Who.Name, Reason: r.Reason, OnGap: onGap}.Run(ctx, db)
			return nil, err
		})
	return err
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
