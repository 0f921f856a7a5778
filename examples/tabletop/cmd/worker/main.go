// Command worker keeps the tabletop read models up to date, in the schema public of the database that TIDEMARK_DATABASE_URL names or of the
// private one of the checkout. Run as many as you like; Ctrl-C hands back what a worker holds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

func main() {
	leaseTTL := flag.Duration("lease-ttl", 30*time.Second, "after which others take over from a worker that died")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	if err := run(ctx, *leaseTTL, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, leaseTTL time.Duration, logger *slog.Logger) (err error) {
	url, closeServer, err := devpg.URL(ctx, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = 8 // the projector wants two more than the groups it applies at the same time
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	projections, err := tabletop.Projections()
	if err != nil {
		return err
	}
	worker, err := projector.New(projector.Config{Pool: pool, Projections: projections, LeaseTTL: leaseTTL, Logger: logger})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}
