package waiter_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/waiter"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// Read your own write: append, commit, wait for the read model, read it.
func ExampleWaiter_Wait() {
	count := projection.Document[int]{
		Name: "visits", Version: 1, Fold: func(n *int, _ event.Event) error { *n++; return nil },
	}
	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		worker, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{count}})
		if err != nil {
			return err
		}
		if err := worker.Register(ctx); err != nil {
			return err
		}
		w := waiter.New(pool, nil)
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 2)
		go func() { ended <- worker.Run(running) }()
		go func() { ended <- w.Run(running) }()
		defer func() { stop(); _, _ = <-ended, <-ended }()

		var token string
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			appended, err := journal.Journal{}.Append(ctx, tx, "page-1", journal.Any, event.Event{Type: "visited"})
			if err == nil {
				token = appended[0].Token()
			}
			return err
		}); err != nil {
			return err
		}
		patient, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := w.Wait(patient, token, "visits"); err != nil {
			var refused *waiter.NotAppliedError
			if errors.As(err, &refused) {
				fmt.Println("the projection is", refused.Status)
			}
			return err
		}
		visits, _, err := count.Get(ctx, pool, "page-1")
		fmt.Println(visits)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 1
}
