// Package session opens the sessions of the programs that come with Tidemark.
package session

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// SearchPath leaves out every schema that others may create functions and operators in. Statements
// name all else with its schema.
const SearchPath = "pg_catalog, pg_temp"

// Open opens a pool whose sessions have [SearchPath], whatever the address says, and checks that
// the database answers. PgBouncer refuses settings of a session: through it sessions have the
// search_path of their role. The caller closes the pool.
func Open(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	Prepare(cfg)
	cfg.ConnConfig.RuntimeParams["search_path"] = SearchPath
	pool, err := open(ctx, cfg)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "08P01" { // protocol violation: the startup parameter
		delete(cfg.ConnConfig.RuntimeParams, "search_path")
		return open(ctx, cfg)
	}
	return pool, err
}

func open(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}
