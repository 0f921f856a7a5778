package feed

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	// queryCampaigns steps from campaign to campaign along the primary key, from the first one with
	// the prefix, $2 of them at most: its cost is what it returns, however many events and campaigns
	// there are. It takes no lock.
	queryCampaigns = `WITH RECURSIVE walk AS (
			(SELECT j.campaign_id, 1 AS steps FROM tidemark.journal j WHERE j.campaign_id >= $1 ORDER BY j.campaign_id LIMIT 1)
			UNION ALL
			SELECT n.campaign_id, w.steps + 1
			FROM walk w CROSS JOIN LATERAL (
				SELECT j.campaign_id FROM tidemark.journal j WHERE j.campaign_id > w.campaign_id ORDER BY j.campaign_id LIMIT 1
			) n
			WHERE w.steps < $2 AND starts_with(w.campaign_id, $1)
		)
		SELECT campaign_id FROM walk WHERE starts_with(campaign_id, $1) ORDER BY campaign_id`

	// queryLast reads the end of the campaign's range of the primary key.
	queryLast = `SELECT ` + eventColumns + ` FROM tidemark.journal WHERE campaign_id = $1 ORDER BY seq DESC LIMIT 1`
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

const (
	// queryCampaignsAfter steps as queryCampaigns does, from a campaign on.
	queryCampaignsAfter = `WITH RECURSIVE walk AS (
			(SELECT j.campaign_id, 1 AS steps FROM tidemark.journal j WHERE j.campaign_id > $1 ORDER BY j.campaign_id LIMIT 1)
			UNION ALL
			SELECT n.campaign_id, w.steps + 1
			FROM walk w CROSS JOIN LATERAL (
				SELECT j.campaign_id FROM tidemark.journal j WHERE j.campaign_id > w.campaign_id ORDER BY j.campaign_id LIMIT 1
			) n
			WHERE w.steps < $2
		)
		SELECT campaign_id FROM walk ORDER BY campaign_id`

	// queryCountCampaigns steps through all of them.
	queryCountCampaigns = `WITH RECURSIVE walk AS (
			(SELECT j.campaign_id FROM tidemark.journal j ORDER BY j.campaign_id LIMIT 1)
			UNION ALL
			SELECT n.campaign_id
			FROM walk w CROSS JOIN LATERAL (
				SELECT j.campaign_id FROM tidemark.journal j WHERE j.campaign_id > w.campaign_id ORDER BY j.campaign_id LIMIT 1
			) n
		)
		SELECT count(*) FROM walk`
)

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
