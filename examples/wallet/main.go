// Command wallet serves wallets over HTTP: opening, deposits, withdrawals, and transfers. A transfer is
// one decision about two wallets, or a request that a process carries out.
//
//	go run ./examples/wallet -addr 127.0.0.1:8080
//
// It uses the database that TIDEMARK_DATABASE_URL names, or starts a temporary Postgres. Then, in
// another terminal:
//
//	curl -i 127.0.0.1:8080/wallets/1 -d '{"owner": "mira"}'
//	curl -i 127.0.0.1:8080/wallets/2 -d '{"owner": "oskar"}'
//	curl -i 127.0.0.1:8080/wallets/1/deposits -d '{"amount": 500}'
//	curl -i 127.0.0.1:8080/wallets/1/transfers -d '{"to": "2", "amount": 300}'
//	curl -i 127.0.0.1:8080/wallets/2/requests -d '{"to": "1", "amount": 50}'
//	curl -i 127.0.0.1:8080/wallets/1/withdrawals -d '{"amount": 300}'
//	curl 127.0.0.1:8080/wallets/1
//	curl 127.0.0.1:8080/wallets/2
//	curl 127.0.0.1:8080/days/$(date -u +%F)
//
// The withdrawal is refused: at most 250 are left.
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
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "the address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Getenv("TIDEMARK_DATABASE_URL"), *addr, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "wallet:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, databaseURL, addr string, out io.Writer) error {
	if databaseURL != "" {
		return serve(ctx, databaseURL, addr, out)
	}
	server, err := devpg.Open(ctx, devpg.Config{Private: true})
	if err != nil {
		return err
	}
	return errors.Join(serve(ctx, server.URL(), addr, out), server.Close())
}

// serve serves requests and keeps the read model up to date until ctx ends.
func serve(ctx context.Context, databaseURL, addr string, out io.Writer) error {
	if err := migrations.Up(ctx, databaseURL); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	worker, err := newWorker(pool)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(wallets{pool: pool}), ReadHeaderTimeout: 10 * time.Second}
	if _, err := fmt.Fprintf(out, "wallets at http://%s/wallets\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return worker.Run(ctx) })
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return server.Shutdown(last)
	})
	return group.Wait()
}

// newWorker returns a worker with its own consumer group, so workers of other groups need not know
// its projections.
func newWorker(pool *pgxpool.Pool) (*projector.Projector, error) {
	return projector.New(projector.Config{
		Pool: pool, ConsumerGroup: "wallets",
		Projections: projections(),
	})
}

func projections() []projection.Projection {
	return []projection.Projection{
		balances(), days(), transfers(),
	}
}
