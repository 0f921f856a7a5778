package web

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
)

// NewPool opens the admin listener's own small pool, so that no page takes a connection from a
// worker. timeout limits each statement.
func NewPool(ctx context.Context, url string, connections int, timeout time.Duration) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL of the admin listener: %w", err)
	}
	cfg.MaxConns, cfg.MinConns = int32(min(connections, 100)), 0
	cfg.MaxConnIdleTime = time.Minute
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	params := cfg.ConnConfig.RuntimeParams
	params["application_name"] = "tidemark-admin"
	params["search_path"] = session.SearchPath
	params["statement_timeout"] = milliseconds(timeout)
	params["jit"] = "off" // pages read a few rows: compilation takes longer than the query
	params["lock_timeout"] = milliseconds(min(timeout, 2*time.Second))
	params["idle_in_transaction_session_timeout"] = milliseconds(2 * timeout)
	session.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("database of the admin listener: %w", err)
	}
	return pool, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }
