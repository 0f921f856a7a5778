package deferred

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// queryBecame probes the primary key once a pair. It locks nothing.
const queryBecame = `SELECT count(*) FILTER (WHERE d.next_seq IS NULL OR d.next_seq > n.next_seq),
		count(*) FILTER (WHERE d.next_seq <= n.next_seq AND (d.attempt_count > 0 OR d.status = 'dead'))
	FROM unnest($1::text[], $2::text[], $3::bigint[]) AS n (campaign_id, projection, next_seq)
	LEFT JOIN LATERAL (
		SELECT d.next_seq, d.attempt_count, d.status FROM tidemark.deferred d
		WHERE d.campaign_id = n.campaign_id AND d.projection = n.projection OFFSET 0
	) d ON true`

// Became counts what became of pairs that were requeued at these places: those that got past the event, and those that
// failed at it again. The others still wait for a worker.
func Became(ctx context.Context, db journal.Querier, places []Place) (passed, failed int64, err error) {
	var campaigns, projections []string
	var seqs []int64
	for _, p := range places {
		campaigns, projections = append(campaigns, p.CampaignID), append(projections, p.Projection)
		seqs = append(seqs, p.NextSeq)
	}
	rows, err := db.Query(ctx, queryBecame, campaigns, projections, seqs)
	if err != nil {
		return 0, 0, fmt.Errorf("count what became of requeued pairs: %w", err)
	}
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[struct{ Passed, Failed int64 }])
	if err != nil {
		return 0, 0, fmt.Errorf("count what became of requeued pairs: %w", err)
	}
	return n.Passed, n.Failed, nil
}
