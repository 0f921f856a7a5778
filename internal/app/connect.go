package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// connect opens a pool with enough connections for the worker and checks that the database answers.
func connect(
	ctx context.Context, settings config.Worker, opts Options, logger *slog.Logger,
) (*pgxpool.Pool, error) {
	cfg, err := session.Parse(settings.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	session.Before(cfg, opts.BeforeConnect)
	// Five more than groups need: they claim, renew, beat and run operations.
	cfg.MaxConns = max(cfg.MaxConns, int32(min(settings.Projector.Concurrency, 1000))+5)
	if settings.HTTPAddr != "off" {
		cfg.MaxConns++ // the database's figures
	}
	if publishes(settings) {
		cfg.MaxConns += publisher.Connections
	}
	cfg.PingTimeout = 5 * time.Second
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "tidemark-worker"
	}
	pool, err := session.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	var limit, room int32
	switch err := pool.QueryRow(ctx, queryRoom).Scan(&limit, &room); {
	case errors.Is(err, pgx.ErrNoRows):
		return pool, nil
	case err != nil:
		pool.Close()
		return nil, fmt.Errorf("look up the role's connection limit: %w", err)
	}
	if settings.Listen {
		room -= listeners
	}
	if settings.Admin.Addr != "off" {
		room -= int32(min(settings.Admin.Connections, 100)) + authConnections
	}
	if room >= cfg.MaxConns {
		return pool, nil
	}
	pool.Close()
	wanted := cfg.MaxConns
	cfg.MaxConns = max(room, leastConnections)
	cfg.MinConns, cfg.MinIdleConns = min(cfg.MinConns, cfg.MaxConns), min(cfg.MinIdleConns, cfg.MaxConns)
	logger.WarnContext(ctx, "the role's connection limit leaves less than the worker would use: groups wait for each "+
		"other. Raise it with ALTER ROLE … CONNECTION LIMIT, or lower TIDEMARK_APPLY_CONCURRENCY",
		"limit", limit, "wanted", wanted, "pool", cfg.MaxConns)
	if pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return pool, nil
}

const (
	listeners        = 2 // of projections and publishers, outside the pool
	leastConnections = 3 // to claim, to renew and to apply
)
