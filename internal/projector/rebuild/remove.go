package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	pauses "github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// ErrUnknownProjection is returned by [Remove] for a projection that the registry does not know.
var ErrUnknownProjection = errors.New("no such projection is registered")

// Remove removes a projection from the registry, with its pairs and its pause and, if tables is
// set, its tables with all that is in them. What its group applies at the moment is waited for;
// from then on workers that have the projection leave it alone. One that starts with it registers
// it again: take it out of the program first. A table that others depend on is an error, and
// nothing is removed. The failure log keeps who removed it, and why, as 'removed'.
//
// A rebuild of it, and the tables that one has replaced, go with it, with all that is in them. A
// name that only stands for these (NAME~next, NAME~previous) is unknown here.
//
// Workers wait for it only while it deletes the row and the tables. Pairs, which no
// worker follows any more, are deleted afterwards; one that fails in the middle leaves the rest to
// the registration of a projection of that name.
func Remove(ctx context.Context, db registry.Beginner, name string, tables bool, act failed.Act) (err error) {
	defer rows.Explain(&err, "remove projection %q", name)
	var group string
	err = registry.Exclusively(ctx, db, name, func(tx pgx.Tx) error {
		if _, s := registry.Split(name); s != registry.LiveTables {
			return ErrUnknownProjection
		}
		sets, err := lockSets(ctx, tx, name)
		if err != nil {
			return err
		}
		for _, s := range []registry.TableSet{registry.NextTables, registry.PreviousTables} {
			if set := sets[s.Of(name)]; set != nil {
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
		if err := failed.Write(ctx, tx, "removed", group, name, act); err != nil {
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
	if err != nil {
		return err
	}
	return registry.ClearLeft(ctx, db, group, name)
}
