// Package rows runs statements and collects their rows. Its errors start with what was tried.
package rows

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Querier reads from the database: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Result are rows of pgx or database/sql.
type Result interface {
	Next() bool
	Scan(into ...any) error
	Err() error
	Close() error
}

// Pgx returns rows of pgx as a [Result].
func Pgx(found pgx.Rows) Result { return result{found} }

type result struct{ pgx.Rows }

func (r result) Close() error {
	r.Rows.Close()
	return r.Err()
}

// All returns all rows, converted by scan. what precedes an error's text; "" leaves the error unchanged.
func All[T any](
	ctx context.Context, db Querier, scan pgx.RowToFunc[T], what, sql string, args ...any,
) ([]T, error) {
	found, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, explained(what, err)
	}
	all, err := pgx.CollectRows(found, scan)
	return all, explained(what, err)
}

// One returns the only row, or [pgx.ErrNoRows].
func One[T any](
	ctx context.Context, db Querier, scan pgx.RowToFunc[T], what, sql string, args ...any,
) (one T, err error) {
	found, err := db.Query(ctx, sql, args...)
	if err != nil {
		return one, explained(what, err)
	}
	one, err = pgx.CollectExactlyOneRow(found, scan)
	return one, explained(what, err)
}

// Each scans each row into the variables in into, then calls visit.
func Each(ctx context.Context, db Querier, into []any, visit func(), what, sql string, args ...any) error {
	found, err := db.Query(ctx, sql, args...)
	if err == nil {
		err = Visit(into, visit)(found)
	}
	return explained(what, err)
}

// ByKey returns the values in the second column by those in the first.
func ByKey[K comparable, V any](ctx context.Context, db Querier, what, sql string, args ...any) (map[K][]V, error) {
	all := map[K][]V{}
	var key K
	var value V
	err := Each(ctx, db, []any{&key, &value}, func() { all[key] = append(all[key], value) }, what, sql, args...)
	return all, err
}

// Visit is [Each] for a query on a batch.
func Visit(into []any, visit func()) func(pgx.Rows) error {
	return func(found pgx.Rows) error {
		_, err := pgx.ForEachRow(found, into, func() error { visit(); return nil })
		return err
	}
}

// Into is [All] for a query on a batch.
func Into[T any](all *[]T, scan pgx.RowToFunc[T]) func(pgx.Rows) error {
	return func(found pgx.Rows) (err error) {
		*all, err = pgx.CollectRows(found, scan)
		return err
	}
}

// Execer runs statements: a pool, a connection or a transaction.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Exec runs a statement without result rows and returns how many rows it affected.
func Exec(ctx context.Context, db Execer, what, sql string, args ...any) (affected int64, err error) {
	tag, err := db.Exec(ctx, sql, args...)
	return tag.RowsAffected(), explained(what, err)
}

// Do is [Exec] where the number of rows does not matter.
func Do(ctx context.Context, db Execer, what, sql string, args ...any) error {
	_, err := Exec(ctx, db, what, sql, args...)
	return err
}

// Explain prefixes an error that the calling function is about to return. Defer it.
func Explain(err *error, format string, args ...any) {
	if *err != nil {
		*err = explained(fmt.Sprintf(format, args...), *err)
	}
}

func explained(what string, err error) error {
	if err == nil || what == "" {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
