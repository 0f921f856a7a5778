package sqlfile

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// readTouched answers what the transaction has touched outside of the scratch schema, without what is known.
func readTouched(ctx context.Context, tx pgx.Tx, reported []string) ([]string, error) {
	found, err := rows.All(ctx, tx, pgx.RowTo[string], "", queryTouched)
	return slices.DeleteFunc(found, func(name string) bool { return slices.Contains(reported, name) }), err
}
