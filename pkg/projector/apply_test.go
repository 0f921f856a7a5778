package projector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

type moved struct {
	By int `json:"by"`
}

type counter struct {
	Count int `json:"count"`
	Sum   int `json:"sum"`
}

func counters() projection.Projection {
	return projection.Document[counter]{
		Name: "counters", Version: 1, Types: []string{"moved"},
		Fold: func(c *counter, e event.Event) error {
			m, err := event.Decode[moved](e)
			c.Count++
			c.Sum += m.By
			return err
		},
	}
}

func ledger() projection.Projection {
	return projection.Handlers{
		Name: "ledger", Version: 1, Tables: `CREATE TABLE ledger (campaign_id text,
		seq bigint, by int NOT NULL, PRIMARY KEY (campaign_id, seq))`,
		On: []projection.Handler{
			projection.Handle("moved", func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
				g.Queue(`INSERT INTO ledger (campaign_id, seq, by) VALUES ($1, $2, $3)`, e.CampaignID, e.Seq, m.By)
				return nil
			}),
		},
	}
}

func appendMoves(t *testing.T, pool *pgxpool.Pool, campaign string, by ...int) {
	t.Helper()
	events := make([]event.Event, len(by))
	for i, b := range by {
		payload, err := json.Marshal(moved{By: b})
		if err != nil {
			t.Fatal(err)
		}
		events[i] = event.Event{Type: "moved", Payload: payload}
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any, events...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func newProjector(t *testing.T, pool *pgxpool.Pool, projections ...projection.Projection) *projector.Projector {
	t.Helper()
	p, err := projector.New(projector.Config{Pool: pool, Projections: projections})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func query[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func TestDrain(t *testing.T) {
	t.Parallel()
	t.Run("applies_what_was_appended_before_and_after_the_group_was_known", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		for i := range 50 {
			appendMoves(t, pool, fmt.Sprintf("c%d", i), 1, 2, 3)
		}
		p := newProjector(t, pool, counters(), ledger())
		if n, err := p.Drain(t.Context()); err != nil || n != 150 {
			t.Fatalf("Drain = %d, %v, want 150", n, err)
		}
		appendMoves(t, pool, "c7", 10)
		if n, err := p.Drain(t.Context()); err != nil || n != 1 {
			t.Fatalf("Drain = %d, %v, want 1", n, err)
		}
		if sum := query[int](t, pool, `SELECT (doc->>'sum')::int FROM counters WHERE campaign_id = 'c7'`); sum != 16 {
			t.Errorf("sum = %d, want 16", sum)
		}
		if n := query[int](t, pool, `SELECT count(*) FROM ledger`); n != 151 {
			t.Errorf("ledger has %d rows, want 151", n)
		}
		if n := query[int](t, pool, `SELECT count(*) FROM tidemark.outbox`); n != 0 {
			t.Errorf("%d work items are left", n)
		}
		if n := query[int](t, pool, `SELECT count(*) FROM tidemark.leases WHERE expires_at > now()`); n != 0 {
			t.Errorf("%d leases are held", n)
		}
	})
	t.Run("brings_a_projection_that_is_added_later_to_the_head", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		for i := range 20 {
			appendMoves(t, pool, fmt.Sprintf("c%d", i), 1, 2, 3)
		}
		if _, err := newProjector(t, pool, counters()).Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := newProjector(t, pool, counters(), ledger())
		if n, err := p.Drain(t.Context()); err != nil || n != 60 {
			t.Fatalf("Drain = %d, %v, want 60", n, err)
		}
		if n := query[int](t, pool, `SELECT count(*) FROM ledger`); n != 60 {
			t.Errorf("ledger has %d rows, want 60", n)
		}
		if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failed`); n != 0 {
			t.Errorf("%d pairs are behind", n)
		}
	})
}
