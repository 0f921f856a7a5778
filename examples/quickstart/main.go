// Command quickstart appends events to a campaign, lets a projector apply them, and prints the document it made of them:
//
//	go run ./examples/quickstart
//
// It uses the database that TIDEMARK_DATABASE_URL names, or starts a private Postgres.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	url, closeServer, err := devpg.URL(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	return errors.Join(run(ctx, url, out), closeServer())
}
