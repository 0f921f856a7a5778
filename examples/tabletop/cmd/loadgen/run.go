package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/migrations"
)

// run appends for the given time (0: until ctx is cancelled) and prints the number of events.
func run(ctx context.Context, dev bool, config tabletop.LoadConfig, length time.Duration) (err error) {
	url, closeServer, err := devpg.URL(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)), dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	if err := migrations.Up(ctx, url); err != nil {
		return err
	}
	pool, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	pool.MaxConns = int32(max(config.Lanes, 1))
	if config.Pool, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return err
	}
	defer config.Pool.Close()
	load, err := tabletop.NewLoad(config)
	if err != nil {
		return err
	}
	if length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, length)
		defer cancel()
	}
	begun := time.Now()
	err = load.Run(ctx)
	spent := time.Since(begun).Seconds()
	fmt.Printf("appended %d events in %.1f s, %.0f/s\n", load.Appended(), spent, float64(load.Appended())/spent)
	return err
}
