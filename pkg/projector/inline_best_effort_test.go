package projector_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestApplyInlineWithBestEffort(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, refuse *bool) (*pgxpool.Pool, *projector.Projector) {
		t.Helper()
		pool := pgtest.New(t)
		return pool, inlineProjector(t, pool, projector.Config{Projections: []projection.Projection{
			counters(), ledger(),
			squeamish(refuse),
		}, InlineBestEffort: true, GroupEvents: 4})
	}
	drain := func(t *testing.T, p *projector.Projector) {
		t.Helper()
		if _, err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("removes_the_work_item_when_it_succeeds", func(t *testing.T) {
		t.Parallel()
		refuse := false
		pool, p := start(t, &refuse)
		mustAppendInline(t, pool, p, "c", 1, 2)
		expectCounts(t, pool, map[string]int{`SELECT count(*) FROM ledger`: 2, `SELECT count(*) FROM tidemark.outbox`: 0})
	})
	t.Run("leaves_what_fails_to_the_workers_and_lets_the_append_commit", func(t *testing.T) {
		t.Parallel()
		refuse := true
		pool, p := start(t, &refuse)
		mustAppendInline(t, pool, p, "c", -2, -1)
		expectCounts(t, pool, map[string]int{
			`SELECT count(*) FROM tidemark.journal`: 2, `SELECT count(*) FROM ledger`: 0,
			`SELECT sum(events) FROM
			tidemark.outbox`: 2, `SELECT count(*) FROM tidemark.leases`: 0,
		})
		drain(t, p)
		expectCounts(t, pool, map[string]int{`SELECT count(*) FROM ledger`: 2, `SELECT count(*) FROM tidemark.failed`: 1})
	})
	t.Run("leaves_a_backlog_and_what_a_worker_holds_to_the_workers", func(t *testing.T) {
		t.Parallel()
		refuse := false
		pool, p := start(t, &refuse)
		appendMoves(t, pool, "backlog", 1, 2, 3, 4)
		mustAppendInline(t, pool, p, "backlog", 5)
		if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation,
			expires_at, checkpoint) VALUES ('default', 'held', 'w', 3, now() + interval '25 s', 0)`); err != nil {
			t.Fatal(err)
		}
		mustAppendInline(t, pool, p, "held", 1)
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation,
			expires_at, checkpoint) VALUES ('default', 'locked', 'w', 3, '-infinity', 0)`); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if tx, err = pool.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SELECT FROM tidemark.leases WHERE campaign_id = 'locked' FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		bounded, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := appendInline(bounded, pool, p, "locked", 1); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		expectCounts(t, pool, map[string]int{
			`SELECT count(*) FROM ledger`: 0, `SELECT count(*) FROM tidemark.outbox`: 4,
			`SELECT sum(events) FROM
			tidemark.outbox`: 7, `SELECT sum(generation)
			FROM tidemark.leases`: 6,
		})
	})
}
