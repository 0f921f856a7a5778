package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	pauses "github.com/tidemark-go/tidemark/internal/store/pause"
)

// ErrUnknownProjection is returned by [Remove] for a projection that the registry does not know.
var ErrUnknownProjection = errors.New("no such projection is registered")

// queryRemove deletes one row by its primary key, under the registry's lock.
const queryRemove = `DELETE FROM tidemark.projections WHERE name = $1
	RETURNING consumer_group, schema_name, table_names`

// Remove is projector.Remove.
func Remove(ctx context.Context, db registry.Beginner, name string, tables bool, act deferred.Act) error {
	var group string
	err := registry.Exclusively(ctx, db, name, func(tx pgx.Tx) error {
		if _, s := registry.Split(name); s != registry.LiveTables {
			return ErrUnknownProjection
		}
		rows, err := lockSets(ctx, tx, name)
		if err != nil {
			return err
		}
		for _, s := range []registry.TableSet{registry.NextTables, registry.PreviousTables} {
			if set := rows[s.Of(name)]; set != nil {
				if err := dropTables(ctx, tx, set); err != nil {
					return err
				}
			}
		}
		if err := forgetRebuild(ctx, tx, name); err != nil {
			return err
		}
		var schema string
		var names []string
		err = tx.QueryRow(ctx, queryRemove, name).Scan(&group, &schema, &names)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrUnknownProjection
		}
		if err != nil {
			return err
		}
		if err := pauses.Forget(ctx, tx, pauses.Target{Group: group, Projection: name}); err != nil {
			return err
		}
		if err := deferred.Write(ctx, tx, "removed", group, name, act); err != nil {
			return err
		}
		if !tables {
			return nil
		}
		for _, table := range slices.Backward(names) {
			full := pgx.Identifier{schema, table}.Sanitize()
			if _, err := tx.Exec(ctx, "DROP TABLE IF EXISTS "+full); err != nil {
				return fmt.Errorf("drop its table %s: %w", full, err)
			}
		}
		return nil
	})
	if err == nil {
		err = registry.ClearLeft(ctx, db, group, name)
	}
	if err != nil {
		return fmt.Errorf("remove projection %q: %w", name, err)
	}
	return nil
}
