package exchange

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// DB runs statements: a pool, a connection or a transaction.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Tables are tables of one schema.
type Tables struct {
	Schema string
	Names  []string
	Own    []string // what users have not added, from [Objects]
}

// Objects returns what tables have, one line each: indexes and constraints as table.name, other
// objects with their kind first. search_path must begin with the tables' schema.
func Objects(ctx context.Context, db DB, t Tables) ([]string, error) {
	return texts(ctx, db, queryObjects, t.Schema, t.Schema, t.Names)
}

// objects is [Objects] for another search_path.
func objects(ctx context.Context, tx DB, t Tables) (all []string, err error) {
	return all, under(ctx, tx, t.Schema, func() error {
		all, err = Objects(ctx, tx, t)
		return err
	})
}

// under runs do with a schema in front of the search_path, and restores the search_path.
func under(ctx context.Context, tx DB, schema string, do func() error) error {
	paths, err := texts(ctx, tx, querySearched)
	if err != nil {
		return err
	}
	if err := rows.Do(ctx, tx, "", querySearchBefore, schema); err != nil {
		return err
	}
	err = do()
	if restored := rows.Do(ctx, tx, "", querySearchPath, paths[0]); err == nil {
		err = restored
	}
	return err
}

// Addition is something that the old table has and the new one lacks: an index, a constraint, a default, a setting.
type Addition struct {
	SQL  string // that creates it; "": it cannot be carried over
	Name string // as in [Objects]
}

// Added returns what users added to old, that replacement lacks and that can be carried over: all
// that old.Own does not name. The statements need a search_path of both schemas, the replacement's
// first. tx needs the old schema as search_path.
func Added(ctx context.Context, tx DB, old, replacement Tables) ([]Addition, error) {
	all, err := added(ctx, tx, old, replacement)
	return slices.DeleteFunc(all, func(a Addition) bool { return a.SQL == "" }), err
}

func added(ctx context.Context, tx DB, old, replacement Tables) ([]Addition, error) {
	has, err := objects(ctx, tx, replacement)
	if err != nil {
		return nil, err
	}
	return rows.All(ctx, tx, pgx.RowToStructByPos[Addition], "",
		queryAdded, old.Schema, replacement.Schema, old.Names, old.Own, has)
}

// BlockedError names objects that would stay with the old tables.
type BlockedError struct{ By []string }

func (e *BlockedError) Error() string {
	return fmt.Sprintf("the tables cannot be swapped, because these depend on the old ones: %s: drop them first and "+
		"create them again afterwards", strings.Join(e.By, "; "))
}

// Swap puts the tables of replacement's schema in the place of old, which moves to the schema
// attic. The caller owns both schemas. Functions in old's schema whose names begin with prefix move
// too. search_path must be old's schema.
//
// Swap first gives the replacements the owner, grants, comments, policies, triggers and settings of
// their namesakes, without a lock that readers need. Then it locks views on the tables before the
// tables, in the readers' order. It returns a [*BlockedError] for what it cannot carry over.
func Swap(ctx context.Context, tx pgx.Tx, old, replacement Tables, attic, prefix string) error {
	if err := Blocked(ctx, tx, old, replacement); err != nil {
		return err
	}
	carry, err := texts(ctx, tx, queryCarry, old.Schema, replacement.Schema, old.Own)
	if err != nil {
		return err
	}
	// Unqualified names must mean the objects of the new tables.
	if err := under(ctx, tx, replacement.Schema, func() error { return runAll(ctx, tx, carry) }); err != nil {
		return err
	}
	type view struct{ SQL, Name string }
	views, err := rows.All(ctx, tx, pgx.RowToStructByPos[view], "", queryViews, old.Schema, replacement.Schema, old.Names)
	if err != nil {
		return err
	}
	move, err := texts(ctx, tx, queryMove, old.Schema, replacement.Schema, old.Names, attic, prefix)
	if err != nil {
		return err
	}
	for _, v := range views { // unchanged, only for the lock
		if err := run(ctx, tx, v.SQL); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	if err := runAll(ctx, tx, move); err != nil {
		return err
	}
	for _, v := range views {
		if err := run(ctx, tx, v.SQL); err != nil {
			return fmt.Errorf("%s cannot be created on the new tables, drop it or change it first: %w", v.Name, err)
		}
	}
	return nil
}

// Blocked returns the [*BlockedError] that [Swap] would.
func Blocked(ctx context.Context, tx DB, old, replacement Tables) error {
	by, err := texts(ctx, tx, queryBlocked, old.Schema, replacement.Schema, old.Names)
	if err != nil {
		return err
	}
	given, err := added(ctx, tx, old, replacement)
	if err != nil {
		return err
	}
	for _, a := range given {
		if a.SQL == "" {
			by = append(by, a.Name+", which differs from what the projection made and would be lost")
		}
	}
	if len(by) > 0 {
		return &BlockedError{By: by}
	}
	return nil
}

// GuestsError names objects that depend on a schema that is to be dropped.
type GuestsError struct {
	Schema string
	By     []string
}

func (e *GuestsError) Error() string {
	return fmt.Sprintf("the tables in the schema %s are not dropped, because these depend on them: %s: drop them first",
		e.Schema, strings.Join(e.By, "; "))
}

// Drop drops a schema and its contents, if it exists, or returns a [*GuestsError].
func Drop(ctx context.Context, tx pgx.Tx, schema string) error {
	if err := Droppable(ctx, tx, schema); err != nil {
		return err
	}
	return run(ctx, tx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
}

// Droppable returns the [*GuestsError] that [Drop] would.
func Droppable(ctx context.Context, tx DB, schema string) error {
	guests, err := texts(ctx, tx, queryGuests, schema)
	if err == nil && len(guests) > 0 {
		err = &GuestsError{schema, guests}
	}
	return err
}

func runAll(ctx context.Context, tx pgx.Tx, statements []string) error {
	for _, sql := range statements {
		if err := run(ctx, tx, sql); err != nil {
			return err
		}
	}
	return nil
}

func run(ctx context.Context, tx pgx.Tx, sql string) error {
	if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

func texts(ctx context.Context, db DB, sql string, args ...any) ([]string, error) {
	return rows.All(ctx, db, pgx.RowTo[string], "", sql, args...)
}
