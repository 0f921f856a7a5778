// Package ledger reads and writes the tables of relays for one of them: pairs (tidemark.publications),
// relays, refused events (tidemark.parked), and sent events that were lost (tidemark.ghosts). Each
// write of a pair is fenced by owner and generation: a relay that has lost the pair changes nothing.
package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Connections is the most connections of the pool that a relay uses at once.
const Connections = 6

// Channel notifies relays that pairs became free or an operator acted.
const Channel = "tidemark_relay"

// Ledger is safe for concurrent use.
type Ledger struct {
	pool  *pgxpool.Pool
	slots chan struct{} // a token for each connection in use
	owner string
	ttl   time.Duration // of leases
}

// New returns the ledger of the relay named owner.
func New(pool *pgxpool.Pool, owner string, ttl time.Duration) *Ledger {
	return &Ledger{pool: pool, slots: make(chan struct{}, Connections), owner: owner, ttl: ttl}
}

// Use runs do with a connection. do must not use the ledger, or it may deadlock.
func (l *Ledger) Use(ctx context.Context, do func(conn *pgxpool.Conn) error) error {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for one of the relay's %d connections: %w", Connections, ctx.Err())
	}
	defer func() { <-l.slots }()
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return do(conn)
}

func (l *Ledger) exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = l.Use(ctx, func(conn *pgxpool.Conn) error {
		tag, err = conn.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

func (l *Ledger) send(ctx context.Context, batch *pgx.Batch) error {
	return l.Use(ctx, func(conn *pgxpool.Conn) error { return conn.SendBatch(ctx, batch).Close() })
}
