package decisions_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/examples/decisions"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func createInvoice(ctx context.Context, pool *pgxpool.Pool, customer string) error {
	last := journal.NewModel(event.Types("invoice_created"), func(n *int, e event.Event) (err error) {
		*n, err = decisions.Number(e, "number")
		return err
	})
	return decisions.Decide(ctx, pool, func() ([]event.Event, error) {
		return []event.Event{decisions.Event("customer-"+customer, "invoice_created",
			map[string]any{"number": last.State + 1})}, nil
	}, last)
}

func TestInvoiceNumbersWithoutGaps(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var g errgroup.Group
	for n := range 4 {
		g.Go(func() error {
			for range 3 {
				if err := createInvoice(t.Context(), pool, fmt.Sprint(n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	want := 0
	for e, err := range journal.ReadAll(t.Context(), pool, 0) {
		want++
		if n, numberErr := decisions.Number(e, "number"); err != nil || numberErr != nil || n != want {
			t.Fatalf("invoice %d in order has number %d, %v, %v", want, n, err, numberErr)
		}
	}
	if want != 12 {
		t.Errorf("%d invoices", want)
	}
}
