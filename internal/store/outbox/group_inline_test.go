package outbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func registerInline(t *testing.T, group string, db outbox.DB) {
	t.Helper()
	if err := outbox.RegisterInline(t.Context(), db, group); err != nil {
		t.Fatal(err)
	}
}

func TestAppendsDoNotEnqueueForAnInlineGroup(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	registerInline(t, "i", pool)
	register(t, pool, "g")
	mustAppend(t, pool, "one", 1)
	mustAppend(t, pool, "two", 2)
	exec(t, pool, `SELECT * FROM tidemark.append('unchecked', '[{"type": "noted"}]')`)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, "tagged", journal.Any, event.Event{Type: "noted", Tags: []string{"a"}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := items(t, pool, "i"); len(got) > 0 {
		t.Errorf("the inline group got items %v", got)
	}
	if got, want := items(t, pool, "g"), []string{"one:1-1", "tagged:1-1", "two:1-2", "unchecked:1-1"}; !slices.Equal(got,
		want) {
		t.Errorf("the other group got items %v, want %v", got, want)
	}
}

func TestAGroupThatLeavesInlineGetsWorkForCampaignsThatAreBehind(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	registerInline(t, "g", pool)
	mustAppend(t, pool, "applied", 2)
	mustAppend(t, pool, "behind", 3)
	mustAppend(t, pool, "untouched", 1)
	exec(t, pool, `INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
		VALUES ('g', 'applied', 'i', 1, '-infinity', 2), ('g', 'behind', 'i', 1, '-infinity', 1)`)
	register(t, pool, "g")
	if got, want := items(t, pool, "g"), []string{"behind:2-3", "untouched:1-1"}; !slices.Equal(got, want) {
		t.Errorf("got items %v, want %v", got, want)
	}
	mustAppend(t, pool, "applied", 1)
	if got, want := items(t, pool, "g"), []string{"applied:3-3", "behind:2-3", "untouched:1-1"}; !slices.Equal(got, want) {
		t.Errorf("got items %v, want %v", got, want)
	}
}

func TestGoingInlineWaitsForAppendsThatStillEnqueue(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	register(t, pool, "g")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := appendTo(t.Context(), tx, "in flight", 1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		bounded, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := outbox.RegisterInline(bounded, pool, "g"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the append is in flight: got %v", err)
		}
		cancel()
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	registerInline(t, "g", pool)
	mustAppend(t, pool, "in flight", 1)
	if got, want := items(t, pool, "g"), []string{"in flight:1-1"}; !slices.Equal(got, want) {
		t.Errorf("got items %v, want %v", got, want)
	}
}
