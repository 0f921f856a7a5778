// Maintenance is the operator's tool: it shows what remains to be done, and carries events in and out.
//
//	maintenance outbox report           what remains to be done, by status
//	maintenance outbox list             the entries themselves
//	maintenance lag                     how far groups and projections are behind
//	maintenance events import FILE|-    append events from lines of JSON
//	maintenance events export           write events as lines of JSON
//
// It works on the database in TIDEMARK_DATABASE_URL; without that, on the checkout's private server.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/tidemark-go/tidemark/internal/cli"
	"github.com/tidemark-go/tidemark/internal/devpg"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	env := cli.Standard(devpg.URL)
	return cli.Run(ctx, newRoot(env), env, os.Args[1:])
}
