package registry

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
)

// DropPairs is how many failed campaigns are deleted per transaction.
const DropPairs = 10_000

// ClearLeft deletes, in batches, the failed campaigns of all sets of an unregistered projection.
// Each batch holds the registry's lock shared, so the projection cannot be registered during it.
func ClearLeft(ctx context.Context, db Beginner, group, name string) error {
	for _, s := range []TableSet{NextTables, PreviousTables, LiveTables} {
		for more := true; more; {
			if err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, QueryRegistryShared, group); err != nil {
					return err
				}
				var now string
				if err := tx.QueryRow(ctx, queryGroupOf, []string{name}).Scan(&now); err != nil || now != "" {
					more = false
					return err
				}
				pairs, err := failed.Drop(ctx, tx, group, s.Of(name), DropPairs)
				more = pairs == DropPairs
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
