package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Fence takes the places of sets of tables of projections across campaigns from their holders, for a
// transaction that changes data the holders keep, such as the keys that are behind. Work under way
// fails with [ErrLost] and runs again after tx commits.
//
// Call it before writing or locking rows of tidemark.failed, and after all leases: holders lock
// their place first.
func Fence(ctx context.Context, tx pgx.Tx, sets []string) error {
	return retake(ctx, tx, sets, queryRetake)
}

// Rewind is [Fence] for a set of tables that is applied again from the first event.
func Rewind(ctx context.Context, tx pgx.Tx, set string) error {
	return retake(ctx, tx, []string{set}, queryRewind)
}

func retake(ctx context.Context, tx pgx.Tx, sets []string, query string) error {
	if len(sets) == 0 {
		return nil
	}
	if err := rows.Do(ctx, tx, "lock the places of projections across campaigns", queryLockPlaces, sets); err != nil {
		return err
	}
	return rows.Do(ctx, tx, "take the places of projections across campaigns", query, sets)
}
