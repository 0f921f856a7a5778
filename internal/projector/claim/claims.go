package claim

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// Claims is the connection that claims in a row keep to, one after the other. What a claim needs is
// planned once a connection, and that takes longer than the claim: going around the pool, each
// connection would pay for it.
type Claims struct {
	conn  *pgxpool.Conn
	Spare int // connections beyond those that apply
}

// on returns the connection, or the pool if that has none to spare: one must be left for leases to
// be renewed on, and one that listens.
func (c *Claims) on(ctx context.Context, b *registry.Base) (lease.DB, error) {
	needed := 2
	if !b.Draining && !b.Cfg.NoListen {
		needed++
	}
	if c.Spare < needed {
		return b.Cfg.Pool, nil
	}
	if c.conn == nil {
		conn, err := b.Cfg.Pool.Acquire(ctx)
		if err != nil {
			return nil, fmt.Errorf("acquire a connection: %w", err)
		}
		c.conn = conn
	}
	return c.conn, nil
}

// letGo gives the connection back to the pool.
func (c *Claims) letGo() {
	if c.conn != nil {
		c.conn.Release()
		c.conn = nil
	}
}
