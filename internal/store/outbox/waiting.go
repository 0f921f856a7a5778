package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Waiting is a campaign that a consumer group has work in.
type Waiting struct {
	Group      string
	CampaignID string
	Since      time.Time // when the first of its work items was enqueued
	Checkpoint int64     // the last seq applied; 0: none
	Head       int64     // the campaign's last seq
	Held       bool      // a worker holds its lease
}

// Behind is how many events of the campaign the group has before it.
func (w Waiting) Behind() int64 { return w.Head - w.Checkpoint }

// WalkWaiting answers up to limit campaigns with work, in the order of groups and campaigns, from
// those after the group and the campaign named ("" and "": from the first). It probes indexes a few
// times for each campaign that it answers, however long the outbox is.
func WalkWaiting(
	ctx context.Context, db journal.Querier, afterGroup, afterCampaign string, limit int,
) ([]Waiting, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Waiting], "walk campaigns that wait",
		queryWaiting, afterGroup, afterCampaign, limit)
}
