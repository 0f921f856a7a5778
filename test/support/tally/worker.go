package tally

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// Pool opens a separate pool on a database, like a process of its own. name is the application_name
// of its connections.
func Pool(t testing.TB, url, name string, conns int32) *pgxpool.Pool {
	t.Helper()
	return HastyPool(t, url, name, conns, time.Minute)
}

// HastyPool is a [Pool] for a database that may fall silent. A hanging connection attempt occupies
// a place in the pool for at most patience.
func HastyPool(t testing.TB, url, name string, conns int32, patience time.Duration) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = conns
	if cfg.ConnConfig.RuntimeParams["client_encoding"] == "" {
		session.Encoding(cfg.ConnConfig)
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = name
	cfg.ConnConfig.ConnectTimeout = patience
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Run starts a worker in this process. stop stops the worker, waits for it and fails the test if it
// ended with an error. The end of the test calls it too.
func Run(t testing.TB, cfg projector.Config) (stop func()) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	p, err := projector.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	stopped := false
	stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the worker ended with: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}
