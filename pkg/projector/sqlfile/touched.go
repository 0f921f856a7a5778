package sqlfile

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// readTouched answers what the transaction has touched outside of the scratch schema, without what is known.
func readTouched(ctx context.Context, tx pgx.Tx, reported []string) ([]string, error) {
	rows, err := tx.Query(ctx, queryTouched)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return slices.DeleteFunc(found, func(name string) bool { return slices.Contains(reported, name) }), err
}
