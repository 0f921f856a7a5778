package rows

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
)

// SQL is a transaction of database/sql.
type SQL struct{ Tx *sql.Tx }

// Query runs a statement on the connection of pgx that the transaction has. Asking database/sql for it takes a
// round trip, each time: after the transaction's end the connection is another's.
func (s *SQL) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	var conn connection
	_, err := s.Tx.ExecContext(ctx, "", &conn)
	switch {
	case errors.Is(err, sql.ErrTxDone) || ctx.Err() != nil:
		return nil, cmp.Or(err, ctx.Err())
	case conn.of == nil:
		return nil, errors.Join(errors.New("read events in a transaction of database/sql, which takes pgx's driver "+
			"(github.com/jackc/pgx/v5/stdlib)"), err)
	case err != nil:
		return nil, err
	}
	return conn.of.Query(ctx, query, args...)
}

// Commit commits the transaction.
func (s *SQL) Commit(context.Context) error { return s.Tx.Commit() }

// Rollback rolls the transaction back.
func (s *SQL) Rollback(context.Context) error { return s.Tx.Rollback() }

// connection is an argument of a statement that learns which connection runs it.
type connection struct{ of *pgx.Conn }

// RewriteQuery is called by pgx before it runs the statement.
func (c *connection) RewriteQuery(_ context.Context, conn *pgx.Conn, _ string, _ []any) (string, []any, error) {
	c.of = conn
	return "SELECT", nil, nil
}

// Ask runs a statement whose arguments and columns any driver of database/sql has.
func Ask(ctx context.Context, db Querier, query string, args ...any) (Result, error) {
	if s, ok := db.(*SQL); ok {
		return s.Tx.QueryContext(ctx, query, args...) //nolint:rowserrcheck // the caller's
	}
	found, err := db.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return Pgx(found), nil
}
