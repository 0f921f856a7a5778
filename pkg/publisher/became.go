package publisher

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// queryBecame probes the primary key once an event. It locks nothing.
const queryBecame = `SELECT count(*) FILTER (WHERE p.status IS NULL),
		count(*) FILTER (WHERE p.attempt_count > 0 OR p.status = 'parked')
	FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS n (topic, publisher, campaign_id, seq)
	LEFT JOIN LATERAL (
		SELECT p.status, p.attempt_count FROM tidemark.parked p WHERE p.topic = n.topic AND p.publisher = n.publisher
			AND p.campaign_id = n.campaign_id AND p.seq = n.seq AND p.status <> 'draining' LIMIT 1
	) p ON true`

// Became counts what became of parked events that were tried again: those that were sent, and those that were refused
// again. The others are still on their way.
func Became(ctx context.Context, db journal.Querier, events []ParkedKey) (sent, refused int64, err error) {
	var topics, publishers, campaigns []string
	var seqs []int64
	for _, e := range events {
		topics, publishers = append(topics, e.Topic), append(publishers, e.Publisher)
		campaigns, seqs = append(campaigns, e.CampaignID), append(seqs, e.Seq)
	}
	rows, err := db.Query(ctx, queryBecame, topics, publishers, campaigns, seqs)
	if err != nil {
		return 0, 0, fmt.Errorf("count what became of parked events: %w", err)
	}
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[struct{ Sent, Refused int64 }])
	if err != nil {
		return 0, 0, fmt.Errorf("count what became of parked events: %w", err)
	}
	return n.Sent, n.Refused, nil
}
