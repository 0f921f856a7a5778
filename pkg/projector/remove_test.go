package projector_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

var ada = failed.Act{By: "ada", Reason: "over"} //nolint:gochecknoglobals // a constant

func TestAProjectionIsRemovedWhileWorkersRun(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p, err := projector.New(projector.Config{
		Pool:        pool,
		Projections: []projection.Projection{ordered("kept"), ordered("gone")}, PollInterval: 100 * time.Millisecond,
		GroupEvents: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	for i := range 40 {
		appendMoves(t, pool, "a", 1, 2)
		appendMoves(t, pool, "b", 1, 2)
		switch i {
		case 10:
			within(t, "it is registered", func() bool {
				return query[int](t, pool, `SELECT count(*) FROM tidemark.projections WHERE state = 'active'`) == 2
			})
			if err := setPause(ctx, pool, pause.Target{Group: "default", Projection: "gone"}, 0); err != nil {
				t.Fatal(err)
			}
		case 20:
			within(t, "it is behind", func() bool {
				return query[int](t, pool, `SELECT count(*) FROM tidemark.failed WHERE projection = 'gone'`) == 2
			})
			if _, err := replayFrom(ctx, pool, failed.ReplayRequest{Group: "default", Campaigns: []string{"a", "b"}}); err != nil {
				t.Fatal(err)
			}
		case 25:
			if err := rebuild.Remove(ctx, pool, "gone", true, ada); err != nil {
				t.Fatal(err)
			}
			if n := query[int](t, pool, `SELECT count(*) FROM tidemark.pauses`); n > 0 {
				t.Error("the pause is left")
			}
		}
	}
	within(t, "all is applied", func() bool {
		return query[bool](t, pool, `SELECT NOT EXISTS (SELECT FROM tidemark.outbox)
			AND NOT EXISTS (SELECT FROM tidemark.failed)`)
	})
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM kept WHERE number = seq`); n != 160 {
		t.Errorf("the other projection has applied %d events", n)
	}
	if query[bool](t, pool, `SELECT to_regclass('gone') IS NOT NULL`) {
		t.Error("its table is there again")
	}
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failure_log
		WHERE act NOT IN ('paused', 'replayed', 'removed')`); n > 0 {
		t.Errorf("the removal came out as %d failures", n)
	}
	if err := rebuild.Remove(t.Context(), pool, "gone", true, ada); !errors.Is(err, rebuild.ErrUnknownProjection) {
		t.Errorf("removed again: %v", err)
	}
}

func TestRemovingKeepsAllOfAProjectionWhoseTableOthersNeed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	drained(t, newProjector(t, pool, ordered("log")), 0)
	if _, err := pool.Exec(t.Context(), `CREATE VIEW others AS SELECT * FROM log`); err != nil {
		t.Fatal(err)
	}
	if err := rebuild.Remove(t.Context(), pool, "log", true, ada); err == nil {
		t.Error("a table was dropped under a view")
	}
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.projections`); n != 1 {
		t.Error("the registry has forgotten it")
	}
	if err := rebuild.Remove(t.Context(), pool, "log", false, ada); err != nil {
		t.Error(err)
	}
	if !query[bool](t, pool, `SELECT to_regclass('log') IS NOT NULL`) {
		t.Error("its table was not to be dropped")
	}
}

func TestAGroupIsUnregisteredOnceItsProjectionsAreGone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := newProjector(t, pool, ordered("log"))
	appendMoves(t, pool, "a", 1)
	drained(t, p, 1)
	appendMoves(t, pool, "a", 1)
	if err := setPause(t.Context(), pool, pause.Target{Group: "default"}, 0); err != nil {
		t.Fatal(err)
	}
	if err := outbox.Unregister(t.Context(), pool, "default", "ada", "over"); !errors.Is(err, outbox.ErrInUse) {
		t.Fatalf("with a projection: %v", err)
	}
	if err := rebuild.Remove(t.Context(), pool, "log", true, ada); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `SELECT tidemark.append('b', '[{"type": "moved"}]')`); err != nil {
		t.Fatal(err)
	}
	bounded, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := outbox.Unregister(bounded, pool, "default", "ada", "over"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while an append is open that knows the group: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := outbox.Unregister(t.Context(), pool, "default", "ada", "over"); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"consumer_groups", "outbox", "leases", "pauses"} {
		if n := query[int](t, pool, "SELECT count(*) FROM tidemark."+table); n > 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
	if err := outbox.Unregister(t.Context(), pool, "default", "ada", "over"); !errors.Is(err, outbox.ErrNotRegistered) {
		t.Errorf("once more: %v", err)
	}
	if s := query[string](t, pool, `SELECT string_agg(concat_ws(' ', act, consumer_group, projection, 'by', actor,
		'since', reason), ', ' ORDER BY id) FROM tidemark.failure_log
		WHERE act = 'removed'`); s != "removed default log by ada since over, removed default by ada since over" {
		t.Errorf("log: %s", s)
	}
	drained(t, newProjector(t, pool, ordered("log")), 3)
}
