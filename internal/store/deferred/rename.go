package deferred

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	// queryRenameLog reads an index of such rows. They say which events the projection has gone past
	// by its policy, of the rows that go by the new name from now on.
	queryRenameLog = `UPDATE tidemark.failure_log SET projection = $3 WHERE consumer_group = $1 AND projection = $2
		AND act IN ('skipped', 'replayed')`

	// A pair that is not dead is due at some time, and one that is dead stands among what failed:
	// each has an index by its projection, so other projections' pairs cost nothing here.
	queryRenameDead = `UPDATE tidemark.deferred SET projection = $3
		WHERE consumer_group = $1 AND projection = $2 AND status = 'dead'`
	queryRenameDue = `UPDATE tidemark.deferred SET projection = $3
		WHERE consumer_group = $1 AND projection = $2 AND next_attempt_at < 'infinity'`

	// queryDrop waits for an act that is writing a pair, and may leave that pair to the next call.
	queryDrop = `WITH dead AS MATERIALIZED (
			SELECT d.ctid AS place FROM tidemark.deferred d
			WHERE d.consumer_group = $1 AND d.projection = $2 AND d.status = 'dead' LIMIT $3 FOR UPDATE
		), due AS MATERIALIZED (
			SELECT d.ctid AS place FROM tidemark.deferred d
			WHERE d.consumer_group = $1 AND d.projection = $2 AND d.next_attempt_at < 'infinity' LIMIT $3 FOR UPDATE
		), chosen AS MATERIALIZED (
			SELECT place FROM dead UNION SELECT place FROM due
		), gone AS (
			DELETE FROM tidemark.deferred d WHERE d.ctid = ANY (ARRAY(SELECT c.place FROM chosen c))
		)
		SELECT count(*) FROM chosen`
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
