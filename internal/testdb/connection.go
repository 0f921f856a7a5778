package testdb

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
)

// admins is the connection with which this process creates and drops databases.
var admins connection //nolint:gochecknoglobals // Go has no other place for what all tests of a process share

// connection is kept open, because connecting for each creation and drop would cost more than a
// test's database itself. It has no goroutine but one of pgx after a write that was slow.
type connection struct {
	mu     sync.Mutex
	server string
	conn   *pgx.Conn
}

// use calls work with the connection. It connects if there is none, if it is broken, or if it is to
// another server.
func (a *connection) use(ctx context.Context, server string, work func(*pgx.Conn) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil && (a.server != server || a.conn.Ping(ctx) != nil) {
		a.drop(ctx)
	}
	if a.conn == nil {
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			return fmt.Errorf("the tests' server (%s, or a private one): %w", urlEnv, err)
		}
		a.conn, a.server = conn, server
	}
	return work(a.conn)
}

// close closes the connection.
func (a *connection) close(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(ctx)
}

func (a *connection) drop(ctx context.Context) {
	if a.conn != nil {
		_ = a.conn.Close(ctx) // it may have been broken
		a.conn = nil
	}
}

// Close closes the connection with which this process makes databases.
func Close(ctx context.Context) { admins.close(ctx) }
