package deferred

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	// queryRenameLog reads an index of such rows. They say which events the projection has gone past by its policy, of the rows that go by the new name from now on.
	queryRenameLog = `UPDATE tidemark.failure_log SET projection = $3 WHERE consumer_group = $1 AND projection = $2 AND act IN ('skipped', 'replayed')`

	// queryRename and queryDrop find pairs in the index of the projection's, or read the table
	// where there is none. queryDrop finds a pair that an act is writing, and may leave it to the
	// next call: this one does not see what the act has made of it.
	queryRename = `UPDATE tidemark.deferred SET projection = $3 WHERE consumer_group = $1 AND projection = $2`
	queryDrop   = `WITH chosen AS MATERIALIZED (
			SELECT d.ctid AS place FROM tidemark.deferred d WHERE d.consumer_group = $1 AND d.projection = $2 LIMIT $3 FOR UPDATE
		), gone AS (
			DELETE FROM tidemark.deferred d WHERE d.ctid = ANY (ARRAY(SELECT c.place FROM chosen c))
		)
		SELECT count(*) FROM chosen`
)

// Rename gives all pairs of a projection, and what the log says its policy has skipped, to the one of another name, which must have no pairs. The caller holds the registry's lock, and workers find out what has become of a pair that they
// have claimed: work under way on it comes to nothing.
func Rename(ctx context.Context, tx pgx.Tx, group, from, to string) error {
	if _, err := tx.Exec(ctx, queryRename, group, from, to); err != nil {
		return fmt.Errorf("rename the pairs of projection %s: %w", from, err)
	}
	if _, err := tx.Exec(ctx, queryRenameLog, group, from, to); err != nil {
		return fmt.Errorf("rename what projection %s has skipped: %w", from, err)
	}
	return nil
}

// Drop deletes up to limit pairs of a projection that workers follow no more, and answers how many
// it has found: call it until that is none.
func Drop(ctx context.Context, tx pgx.Tx, group, projection string, limit int) (n int64, err error) {
	if err := tx.QueryRow(ctx, queryDrop, group, projection, limit).Scan(&n); err != nil {
		return 0, fmt.Errorf("delete the pairs of projection %s: %w", projection, err)
	}
	return n, nil
}
