package kind

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Tx is projector.Tx.
type Tx struct {
	conn    *pgx.Conn
	comment string // ends its statements
}

// Exec runs a statement.
func (t Tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.conn.Exec(ctx, sql+t.comment, args...)
}

// Query runs a statement and returns its rows, which must be closed before the next call.
func (t Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.conn.Query(ctx, sql+t.comment, args...)
}

// QueryRow runs a statement that returns at most one row.
func (t Tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.conn.QueryRow(ctx, sql+t.comment, args...)
}

// SendBatch runs several statements in one round trip.
func (t Tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return t.conn.SendBatch(ctx, b)
}

// CopyFrom writes many rows by COPY.
func (t Tx) CopyFrom(
	ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource,
) (int64, error) {
	return t.conn.CopyFrom(ctx, table, columns, src)
}
