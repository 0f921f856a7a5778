package failed

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Rename gives all pairs of a projection, and the log's records of what its policy skipped, to the
// projection of another name, which must have no pairs. Its cost grows with the number of these pairs.
// The caller holds the registry's lock. Work that is under way on a pair comes to nothing.
func Rename(ctx context.Context, tx pgx.Tx, group, from, to string) error {
	for _, rename := range []string{queryRenameDead, queryRenameDue} {
		if _, err := tx.Exec(ctx, rename, group, from, to); err != nil {
			return fmt.Errorf("rename the pairs of projection %s: %w", from, err)
		}
	}
	if _, err := tx.Exec(ctx, queryRenameLog, group, from, to); err != nil {
		return fmt.Errorf("rename what projection %s has skipped: %w", from, err)
	}
	return nil
}

// Drop deletes pairs of a projection that workers no longer follow: up to limit dead ones, and as many
// others. It returns how many it found. Call it until it finds none.
func Drop(ctx context.Context, tx pgx.Tx, group, projection string, limit int) (n int64, err error) {
	if err := tx.QueryRow(ctx, queryDrop, group, projection, limit).Scan(&n); err != nil {
		return 0, fmt.Errorf("delete the pairs of projection %s: %w", projection, err)
	}
	return n, nil
}
