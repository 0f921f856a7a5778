package outbox

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Filter chooses the entries of [List] and [Page].
type Filter struct {
	Status     Status // zero: any
	CampaignID string // zero: any
	Limit      int    // zero: 100
}

const defaultListLimit = 100

// List answers entries, those that have waited longest first. It reads the whole outbox, or the
// campaign's part of it where the filter names one; [Page] reads some at a time.
func List(ctx context.Context, db journal.Querier, filter Filter) ([]Entry, error) {
	if filter.Limit == 0 {
		filter.Limit = defaultListLimit
	}
	return rows.All(ctx, db, pgx.RowToStructByPos[Entry], "list the outbox",
		queryList, filter.Status, filter.CampaignID, filter.Limit)
}
