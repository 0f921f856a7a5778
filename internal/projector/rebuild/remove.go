package rebuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// ErrUnknownProjection is returned for a projection that is not registered.
var ErrUnknownProjection = errors.New("no such projection is registered")

// Remove removes a projection from the registry, with its campaigns that are behind, its pause, its
// rebuild and its previous tables. If tables is set, it drops the projection's own tables too. It
// waits for groups under way. From then on workers leave the projection alone, but one that starts
// with it registers it again. A table that others depend on is an error, and nothing is removed. So is a table of
// a role that the session is no member of ([ErrNotOurs]).
// NAME~next and NAME~previous are unknown here.
//
// Workers wait only while the row and the tables are deleted. Its campaigns that are behind follow; if that
// fails, registering a projection of that name deletes the rest.
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
				if ours, err := ours(ctx, tx, set.SchemaName); err != nil || !ours {
					return cmp.Or(err, ErrNotOurs)
				}
				if err := dropTables(ctx, tx, set); err != nil {
					return err
				}
			}
		}
		if err := forgetRebuild(ctx, tx, name); err != nil {
			return err
		}
		if tables {
			if err := droppable(ctx, tx, name, true); err != nil {
				return err
			}
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
		if err := forgetParts(ctx, tx, group, name); err != nil {
			return err
		}
		if err := failed.Write(ctx, tx, "removed", group, name, act); err != nil || !tables {
			return err
		}
		return dropOurs(ctx, tx, schema, names)
	})
	if err != nil {
		return err
	}
	return registry.ClearLeft(ctx, db, group, name)
}

// dropOurs drops a projection's own tables, the last created first.
func dropOurs(ctx context.Context, tx pgx.Tx, schema string, tables []string) error {
	for _, table := range slices.Backward(tables) {
		full := pgx.Identifier{schema, table}.Sanitize()
		ours, err := rows.One(ctx, tx, pgx.RowTo[bool], "", queryOurTable, full, schema)
		if err != nil || !ours {
			return cmp.Or(err, ErrNotOurs)
		}
		if _, err := tx.Exec(ctx, "DROP TABLE IF EXISTS "+full); err != nil {
			return fmt.Errorf("drop its table %s: %w", full, err)
		}
	}
	return nil
}

// DropReplaced has all tables that rebuilds have replaced dropped at once, instead of after their time.
func DropReplaced(ctx context.Context, db registry.Beginner) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		return rows.Do(ctx, tx, "", queryDropReplaced)
	})
}
