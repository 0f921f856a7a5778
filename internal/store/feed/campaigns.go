package feed

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Campaigns lists the ids of up to limit campaigns that begin with prefix ("": of all) and come after
// a campaign ("": from the first), in the order of their bytes.
func Campaigns(ctx context.Context, db Querier, prefix, after string, limit int) ([]string, error) {
	return rows.All(ctx, db, pgx.RowTo[string], "list campaigns", queryCampaigns, prefix, after, limit)
}

// Last returns the last event of a campaign, its head, or [ErrNotFound] if it has none.
func Last(ctx context.Context, db Querier, campaignID string) (Event, error) {
	return one(ctx, db, fmt.Sprintf("the last event of campaign %q", campaignID), queryLast, campaignID)
}
