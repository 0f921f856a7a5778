package docstest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// serve is a snippet of docs/tutorial/getting-started.md.
func serve(ctx context.Context, pool *pgxpool.Pool, heroes func() projection.Document[int]) error {
	p, err := projector.New(projector.Config{
		Pool: pool, Projections: []projection.Projection{heroes()},
	})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

func TestService(t *testing.T) {
	t.Parallel()
	t.Run("runs until its context ends", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		done := make(chan error, 1)
		go func() { done <- serve(ctx, pool, counted) }()
		await(ctx, t, pool, "SELECT EXISTS (SELECT FROM tidemark.projections WHERE name = 'counted' AND state = 'active')")
		if _, err := pool.Exec(ctx, `SELECT FROM tidemark.append('c', '[{"type": "happened"}]')`); err != nil {
			t.Fatal(err)
		}
		await(ctx, t, pool, "SELECT EXISTS (SELECT FROM counted WHERE doc = '1')")
		stop()
		if err := <-done; err != nil {
			t.Errorf("the service ended with: %v", err)
		}
	})
}

// counted keeps the number of events of each campaign.
func counted() projection.Document[int] {
	return projection.Document[int]{
		Name: "counted", Version: 1,
		Fold: func(n *int, _ event.Event) error { *n++; return nil },
	}
}

// await polls until the query returns true.
func await(ctx context.Context, t *testing.T, pool *pgxpool.Pool, query string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var met bool
		if err := pool.QueryRow(ctx, query).Scan(&met); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if met {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not met in time: %s", query)
		}
	}
}
