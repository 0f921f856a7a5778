package harness

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// The queries that check the result of a side.
const (
	CountJournal = `SELECT count(*) FROM tidemark.journal`
	CountOutbox  = `SELECT coalesce(sum(events), 0) FROM tidemark.outbox`
)

// ExpectCount fails unless the query returns want.
func ExpectCount(ctx context.Context, pool *pgxpool.Pool, query string, want int) error {
	var got int
	if err := pool.QueryRow(ctx, query).Scan(&got); err != nil {
		return fmt.Errorf("check the result: %w", err)
	}
	if got != want {
		return fmt.Errorf("check the result: %d of %d events are in the read model", got, want)
	}
	return nil
}
