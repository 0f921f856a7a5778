package worker_test

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/waiter"
	"github.com/tidemark-go/tidemark/pkg/worker"
)

// serve runs an HTTP server, a worker and what waits for it in one process, until ctx ends or one of them fails.
func serve(ctx context.Context, pool *pgxpool.Pool, waits *waiter.Waiter, server *http.Server) error {
	w := worker.New(worker.Options{
		Projections: []projection.Projection{sessions()},
		Settings: map[string]string{
			"TIDEMARK_DATABASE_URL": pool.Config().ConnString(),
			"TIDEMARK_HTTP_ADDR":    "127.0.0.1:9090", // of the worker's health and metrics
		},
	})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.Run(ctx) })
	group.Go(func() error { return waits.Run(ctx) })
	group.Go(func() error {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return server.Shutdown(context.WithoutCancel(ctx))
	})
	return group.Wait()
}

// A worker inside a program's own server.
func ExampleNew() {
	_ = serve
}
