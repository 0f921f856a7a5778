package deferred

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// queryPruner takes a lock without waiting: one replica prunes at a time.
	queryPruner = `SELECT pg_try_advisory_xact_lock(tidemark.lock_key(32005, 0))`

	// queryPrune walks the index on at from its old end and stops at the limit.
	queryPrune = `DELETE FROM tidemark.failure_log WHERE id = ANY (ARRAY(SELECT l.id FROM tidemark.failure_log l
		WHERE l.at < now() - $1::interval ORDER BY l.at LIMIT $2))`
)

// Beginner begins a transaction: a *pgxpool.Pool or a *pgx.Conn.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Prune deletes up to limit rows of the failure log that are older than olderThan, the oldest
// first, in a transaction of its own. It answers how many: 0 also while another replica prunes. What
// became of pairs that are still deferred stands in their own rows and stays.
func Prune(ctx context.Context, db Beginner, olderThan time.Duration, limit int) (n int64, err error) {
	if olderThan <= 0 || limit < 1 {
		return 0, fmt.Errorf("prune the failure log: %d rows older than %v: use a positive age and limit", limit, olderThan)
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, queryPruner).Scan(&mine); err != nil || !mine {
			return err
		}
		tag, err := tx.Exec(ctx, queryPrune, olderThan, limit)
		n = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune the failure log: %w", err)
	}
	return n, nil
}
