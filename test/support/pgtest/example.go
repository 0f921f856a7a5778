package pgtest

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
)

// Example runs the body of an Example, which has no testing.TB, on its own migrated database. The
// package must call [Main].
func Example(run func(ctx context.Context, pool *pgxpool.Pool) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	server, closeServer, err := shared(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	name := testName(time.Now())
	if err := create(ctx, server, name, migrated); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop(ctx, server, name)) }()
	cfg, err := pgxpool.ParseConfig(withDatabase(server, name))
	if err != nil {
		return err
	}
	session.Encoding(cfg.ConnConfig)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	return run(ctx, pool)
}
