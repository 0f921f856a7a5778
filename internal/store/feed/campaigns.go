package feed

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Campaigns lists the ids of campaigns that begin with prefix (empty: of all), up to limit, in the
// order of their bytes.
func Campaigns(ctx context.Context, db Querier, prefix string, limit int) ([]string, error) {
	return rows.All(ctx, db, pgx.RowTo[string], "list campaigns", queryCampaigns, prefix, limit)
}

// Last returns the last event of a campaign, its head, or [ErrNotFound] if it has none.
func Last(ctx context.Context, db Querier, campaignID string) (Event, error) {
	return one(ctx, db, fmt.Sprintf("the last event of campaign %q", campaignID), queryLast, campaignID)
}

// CampaignsAfter lists the ids of up to limit campaigns after a campaign ("": from the first), in
// the order of their bytes: the next page of all there are.
func CampaignsAfter(ctx context.Context, db Querier, after string, limit int) ([]string, error) {
	return rows.All(ctx, db, pgx.RowTo[string], "list campaigns", queryCampaignsAfter, after, limit)
}

// CountCampaigns counts the campaigns. It probes the primary key once for each.
func CountCampaigns(ctx context.Context, db Querier) (int64, error) {
	return rows.One(ctx, db, pgx.RowTo[int64], "count campaigns", queryCountCampaigns)
}
