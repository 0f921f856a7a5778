package feed

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Campaigns lists the ids of campaigns that begin with prefix (empty: of all), up to limit, in the
// order of their bytes.
func Campaigns(ctx context.Context, db Querier, prefix string, limit int) ([]string, error) {
	rows, err := db.Query(ctx, queryCampaigns, prefix, limit)
	if err != nil {
		return nil, fmt.Errorf("list campaigns: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list campaigns: %w", err)
	}
	return ids, nil
}

// Last returns the last event of a campaign, its head, or [ErrNotFound] if it has none.
func Last(ctx context.Context, db Querier, campaignID string) (Event, error) {
	return one(ctx, db, fmt.Sprintf("the last event of campaign %q", campaignID), queryLast, campaignID)
}

// CampaignsAfter lists the ids of up to limit campaigns after a campaign ("": from the first), in
// the order of their bytes: the next page of all there are.
func CampaignsAfter(ctx context.Context, db Querier, after string, limit int) ([]string, error) {
	rows, err := db.Query(ctx, queryCampaignsAfter, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list campaigns: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list campaigns: %w", err)
	}
	return ids, nil
}

// CountCampaigns counts the campaigns. It probes the primary key once for each.
func CountCampaigns(ctx context.Context, db Querier) (int64, error) {
	rows, err := db.Query(ctx, queryCountCampaigns)
	if err != nil {
		return 0, fmt.Errorf("count campaigns: %w", err)
	}
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, fmt.Errorf("count campaigns: %w", err)
	}
	return n, nil
}
