// Command quickstart appends events to a campaign, lets a projector apply them, and prints the
// resulting document:
//
//	go run ./examples/quickstart
//
// It uses the database that TIDEMARK_DATABASE_URL names, or starts a temporary Postgres.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/tidemark-go/tidemark/internal/devpg"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := start(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, out io.Writer) error {
	if url := os.Getenv("TIDEMARK_DATABASE_URL"); url != "" {
		return run(ctx, url, out)
	}
	server, err := devpg.Open(ctx, devpg.Config{Private: true})
	if err != nil {
		return err
	}
	return errors.Join(run(ctx, server.URL(), out), server.Close())
}
