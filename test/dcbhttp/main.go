// Command dcbhttp serves the journal over the HTTP API that public checkers of dynamic consistency
// boundaries expect:
//
//	go run ./test/dcbhttp -addr 127.0.0.1:3000
//
// It uses the database that TIDEMARK_DATABASE_URL names, or with -dev the private Postgres of this
// checkout. -reset starts without events.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/migrations"
)

// connections is the number of concurrent requests.
const connections = 32

func main() {
	addr := flag.String("addr", "127.0.0.1:3000", "the address to listen on")
	reset := flag.Bool("reset", false, "begin with no events: drops the schema tidemark and makes it again")
	dev := flag.Bool("dev", false, "use a private Postgres under .tidemark/, started if necessary")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *dev, *addr, *reset)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dcbhttp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dev bool, addr string, reset bool) (err error) {
	url, closeServer, err := devpg.URL(ctx, nil, dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	return start(ctx, url, addr, reset, os.Stdout)
}

// start serves until ctx ends.
func start(ctx context.Context, databaseURL, addr string, reset bool, out io.Writer) (err error) {
	if reset {
		if err := migrations.Down(ctx, databaseURL, 0); err != nil {
			return err
		}
	}
	if err := migrations.Up(ctx, databaseURL); err != nil {
		return err
	}
	cfg, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return err
	}
	cfg.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(pool), ReadHeaderTimeout: 10 * time.Second}
	if _, err := fmt.Fprintf(out, "listening on http://%s\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		stopped <- server.Shutdown(last)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
