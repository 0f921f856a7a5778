package publisher

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Connections is how many connections of the pool a relay uses at once at most, whatever the number of its pairs: what needs one more waits. Listening takes one of its own.
const Connections = 6

// connections is the pool, as far as a relay may use it. What runs inside of use must not use it again.
type connections struct {
	pool  *pgxpool.Pool
	slots chan struct{} // a token for each connection in use
}

func newConnections(pool *pgxpool.Pool) connections {
	return connections{pool: pool, slots: make(chan struct{}, Connections)}
}

// use lends a connection.
func (c connections) use(ctx context.Context, do func(conn *pgxpool.Conn) error) error {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for one of the relay's %d connections: %w", Connections, ctx.Err())
	}
	defer func() { <-c.slots }()
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return do(conn)
}

func (c connections) exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = c.use(ctx, func(conn *pgxpool.Conn) error {
		tag, err = conn.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

// send runs a batch.
func (c connections) send(ctx context.Context, batch *pgx.Batch) error {
	return c.use(ctx, func(conn *pgxpool.Conn) error { return conn.SendBatch(ctx, batch).Close() })
}
