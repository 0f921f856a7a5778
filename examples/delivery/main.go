package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tidemark-go/tidemark/internal/devpg"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(ctx, role))
	}
	cfg := config{out: os.Stdout}
	flag.IntVar(&cfg.orders, "orders", 300, "orders to place")
	flag.IntVar(&cfg.kills, "kills", 12, "processes to kill")
	flag.DurationVar(&cfg.every, "every", 400*time.Millisecond, "time between kills, about")
	flag.BoolVar(&cfg.keep, "keep", false, "leave the two databases there")
	flag.Parse()
	right, err := start(ctx, cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "delivery:", err)
	}
	if err != nil || !right {
		os.Exit(1)
	}
}

// start finds or starts a server and runs everything on it.
func start(ctx context.Context, cfg config) (right bool, err error) {
	if cfg.server = os.Getenv(databaseEnv); cfg.server != "" {
		return run(ctx, cfg)
	}
	server, err := devpg.Open(ctx, devpg.Config{Private: true})
	if err != nil {
		return false, err
	}
	cfg.server = server.URL()
	right, err = run(ctx, cfg)
	return right, errors.Join(err, server.Close())
}
