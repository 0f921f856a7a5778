package pgtest

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/testdb"
)

// Example runs the body of an Example, which has no testing.TB, on its own migrated database. The
// package must call [Main].
func Example(run func(ctx context.Context, pool *pgxpool.Pool) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), testdb.SetupTimeout)
	defer cancel()
	server, closeServer, err := testdb.Shared(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	url, drop, err := kind().Make(ctx, server, kind().Migrated)
	defer func() { err = errors.Join(err, drop(ctx)) }()
	if err != nil {
		return err
	}
	cfg, err := pgxpool.ParseConfig(url)
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
