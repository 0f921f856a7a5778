package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// What a side counts after it has run.
const (
	countJournal = `SELECT count(*) FROM tidemark.journal`
	countOutbox  = `SELECT coalesce(sum(events), 0) FROM tidemark.outbox`
)

// expectCount fails unless the query answers want.
func expectCount(ctx context.Context, pool *pgxpool.Pool, query string, want int) error {
	var got int
	if err := pool.QueryRow(ctx, query).Scan(&got); err != nil {
		return fmt.Errorf("check the result: %w", err)
	}
	if got != want {
		return fmt.Errorf("check the result: %d of %d events are in the read model", got, want)
	}
	return nil
}
