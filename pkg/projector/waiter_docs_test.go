package projector_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/waiter"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func heal(ctx context.Context, pool *pgxpool.Pool, campaign string, e event.Event) (token string, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		appended, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any, e)
		if err == nil {
			token = appended[0].Token()
		}
		return err
	})
	return token, err // wait only after the commit
}

func healed(ctx context.Context, w *waiter.Waiter, token string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := w.Wait(ctx, token, "counters", "ledger")
	var refused *waiter.NotAppliedError
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("the page will not show it soon: %w", refused)
	case errors.Is(err, context.DeadlineExceeded):
		return nil // show the page as it is
	}
	return err
}

// TestWaitingAsInTheDocs runs the code of docs/guides/read-your-writes.md.
func TestWaitingAsInTheDocs(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	w := waiterOn(t, pool)
	running(t, registered(t, newProjector(t, pool, counters(), ledger())))
	token, err := heal(t.Context(), pool, "oak", event.Event{Type: "moved", Payload: []byte(`{"by": 3}`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := healed(t.Context(), w, token); err != nil {
		t.Error(err)
	}
	refused(t, w, token, "scores", waiter.NotAppliedError{
		Projection: "scores", CampaignID: "oak", Seq: 1, Status: waiter.Unregistered,
	})
}
