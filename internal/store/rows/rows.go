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
func Each(
	ctx context.Context, db Querier, into []any, visit func() error, what, sql string, args ...any,
) error {
	found, err := db.Query(ctx, sql, args...)
	if err == nil {
		_, err = pgx.ForEachRow(found, into, visit)
	}
	return explained(what, err)
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
