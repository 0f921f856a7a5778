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
	Own    []string // what came with them and was not added by users, as [Objects] answers it
}

// Objects answers what tables have, a line each: indexes and constraints as table.name, columns,
// defaults, settings, triggers and the like with their kind before them. search_path must begin
// with the tables' schema.
func Objects(ctx context.Context, db DB, t Tables) ([]string, error) {
	return texts(ctx, db, queryObjects, t.Schema, t.Schema, t.Names)
}

// objects is [Objects] under a search_path of another schema.
func objects(ctx context.Context, tx DB, t Tables) (all []string, err error) {
	return all, under(ctx, tx, t.Schema, func() error {
		all, err = Objects(ctx, tx, t)
		return err
	})
}

// under does something with a schema before those of the search_path, which then is as it was.
func under(ctx context.Context, tx DB, schema string, do func() error) error {
	paths, err := texts(ctx, tx, querySearched)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, querySearchBefore, schema); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, querySearchPath, paths[0])
	return err
}

// Addition is what one table has been given and the other has not: an index, a constraint, a default, a setting.
type Addition struct {
	SQL  string // that makes it; "": it cannot be brought along
	Name string // as [Objects] says it
}

// Added answers what old has been given since it was made and replacement has not, and what can be
// brought along: what old.Own does not name. The statements are for a search_path of both schemas,
// the replacement's first, and tx for one of the old one.
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

// BlockedError says what would go on with the old tables.
type BlockedError struct{ By []string }

func (e *BlockedError) Error() string {
	return fmt.Sprintf("the tables cannot be exchanged, for these would go on with the old ones: %s: drop them first, "+
		"and make them again afterwards", strings.Join(e.By, "; "))
}

// Swap puts what is in replacement's schema in the place of old, which goes to the schema attic;
// both schemas are left to the caller. Functions in old's schema whose names begin with prefix
// leave with it. search_path must be old's schema.
//
// It gives the replacements the owner, grants, comments, policies, triggers and settings of their
// namesakes before it locks anything that readers use. Then it locks views on the tables before the
// tables, as readers do. It returns a [*BlockedError] for what it cannot bring along.
func Swap(ctx context.Context, tx pgx.Tx, old, replacement Tables, attic, prefix string) error {
	if err := Blocked(ctx, tx, old, replacement); err != nil {
		return err
	}
	carry, err := texts(ctx, tx, queryCarry, old.Schema, replacement.Schema, old.Own)
	if err != nil {
		return err
	}
	// What they name is that which comes with the new tables.
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
	for _, v := range views { // as they are: it is the lock that counts
		if err := run(ctx, tx, v.SQL); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	if err := runAll(ctx, tx, move); err != nil {
		return err
	}
	for _, v := range views {
		if err := run(ctx, tx, v.SQL); err != nil {
			return fmt.Errorf("%s cannot be made on the new tables, drop it or change it first: %w", v.Name, err)
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
			by = append(by, a.Name+", which is not as the projection made it, and would be lost")
		}
	}
	if len(by) > 0 {
		return &BlockedError{By: by}
	}
	return nil
}

// GuestsError says what stands on something in a schema that is to be dropped.
type GuestsError struct {
	Schema string
	By     []string
}

func (e *GuestsError) Error() string {
	return fmt.Sprintf("the tables in the schema %s are not dropped, for these stand on them and would go with them: "+
		"%s: drop them first", e.Schema, strings.Join(e.By, "; "))
}

// Drop drops a schema with all that is in it, if it is there. It returns a [*GuestsError] if
// anything outside of it stands on it.
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
