package journal_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// holdAndRelease holds snippets of docs/guides/scheduled.md.
func holdAndRelease(ctx context.Context, tx pgx.Tx, due, later time.Time) (bool, error) {
	ends, err := journal.Journal{}.AppendAt(ctx, tx, "seat-7", due, event.Event{Type: "hold_expired"})
	if err != nil {
		return false, err
	}
	moved, err := journal.Reschedule(ctx, tx, ends.ID, later)
	if err != nil || !moved.Done {
		return false, err
	}
	cancelled, err := journal.Cancel(ctx, tx, ends.ID)
	return cancelled, err
}

func TestTheScheduledAppendOfTheDocs(t *testing.T) {
	t.Parallel()
	if err := pgx.BeginFunc(t.Context(), pgtest.New(t), func(tx pgx.Tx) error {
		cancelled, err := holdAndRelease(t.Context(), tx, time.Now().Add(10*time.Minute), time.Now().Add(20*time.Minute))
		if !cancelled {
			t.Error("not cancelled")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
