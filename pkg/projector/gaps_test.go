package projector_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// An append whose snapshot is older than the group's registration does not know the group.
// Registration does not wait for it.
func TestAWorkerFindsWhatAnOlderSnapshotAppended(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	run := func(rate int, until func() bool) {
		t.Helper()
		p, err := projector.New(projector.Config{
			Pool: pool, Projections: []projection.Projection{counters()}, GapRate: rate,
			PollInterval: 100 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		within(t, "the worker has done its part", until)
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	applied := func(campaign string) bool {
		return query[bool](t, pool, `SELECT to_regclass('counters') IS NOT
			NULL`) && query[int](t, pool, `SELECT count(*) FROM counters
			WHERE campaign_id = $1`, campaign) == 1
	}

	old, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Exec(t.Context(), `SELECT FROM tidemark.consumer_groups`); err != nil {
		t.Fatal(err)
	}
	appendMoves(t, pool, "new", 1)
	run(-1, func() bool { return applied("new") }) // registers the group
	if _, err := (journal.Journal{}).Append(t.Context(), old, "old", journal.Any, event.Event{Type: "moved"}); err != nil {
		t.Fatal(err)
	}
	if err := old.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	appendMoves(t, pool, "newer", 1)
	run(-1, func() bool { return applied("newer") })
	if applied("old") || query[int](t, pool, `SELECT count(*) FROM tidemark.outbox`) > 0 {
		t.Fatal("the event was not missed: there is nothing to show")
	}
	run(0, func() bool { return applied("old") })
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failure_log WHERE act = 'repaired' AND campaign_id = 'old'
		AND actor LIKE 'worker %'`); n != 1 {
		t.Errorf("the repair is logged %d times", n)
	}
}
