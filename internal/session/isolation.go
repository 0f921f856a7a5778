package session

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Prepare lets the pool's connections work at READ COMMITTED where the default is stricter: each
// statement must see what was committed before it. It costs a round trip a connection. Behind a
// pooler the role's default has to be changed, which doctor and workers say.
func Prepare(cfg *pgxpool.Config) {
	before := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		if err := conn.PgConn().Exec(ctx, fmt.Sprintf(queryReadCommitted, conn.PgConn().PID())).Close(); err != nil {
			return fmt.Errorf("set the session's isolation: %w", err)
		}
		return nil
	}
}

// WithoutJIT reads in a transaction without JIT, which unlike a parameter of the connection goes through any pooler.
func WithoutJIT(ctx context.Context, pool *pgxpool.Pool, read func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, queryNoJIT); err != nil {
			return err
		}
		return read(tx)
	})
}
