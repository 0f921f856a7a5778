package deferred

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// querySkipped reads the log of each campaign by its index. What was skipped and then replayed has had another try.
const querySkipped = `SELECT DISTINCT s.campaign_id, s.seq
	FROM unnest($2::text[]) AS c (campaign_id) CROSS JOIN LATERAL (
		SELECT f.id, f.campaign_id, f.seq FROM tidemark.failure_log f
		WHERE f.campaign_id = c.campaign_id AND f.projection = $1 AND f.act = 'skipped' OFFSET 0
	) s
	WHERE NOT EXISTS (
		SELECT FROM tidemark.failure_log r
		WHERE r.campaign_id = s.campaign_id AND r.projection = $1 AND r.id > s.id AND r.act = 'replayed' AND r.seq <= s.seq
	)
	ORDER BY s.campaign_id, s.seq`

// Skipped answers, by campaign, the events that a projection has gone past without applying them,
// because its policy said so, as far back as the log of failures is kept. What operators have left
// out is for [ResolutionsOf] to say.
func Skipped(
	ctx context.Context, db journal.Querier, projection string, campaignIDs []string,
) (map[string][]int64, error) {
	rows, err := db.Query(ctx, querySkipped, projection, campaignIDs)
	if err != nil {
		return nil, fmt.Errorf("read which events were skipped: %w", err)
	}
	skipped := map[string][]int64{}
	var id string
	var seq int64
	_, err = pgx.ForEachRow(rows, []any{&id, &seq}, func() error {
		skipped[id] = append(skipped[id], seq)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read which events were skipped: %w", err)
	}
	return skipped, nil
}

// queryCountSkipped reads the log.
const queryCountSkipped = `SELECT count(DISTINCT (f.campaign_id, f.seq)) FROM tidemark.failure_log f
	WHERE f.projection = $1 AND f.act = 'skipped'`

// CountSkipped counts the events that a projection has gone past without applying them, by its
// policy, in all campaigns, as far back as the log of failures is kept. Those that were replayed
// since are among them.
func CountSkipped(ctx context.Context, db journal.Querier, projection string) (int64, error) {
	return count(ctx, db, queryCountSkipped, projection)
}
