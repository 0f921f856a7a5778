package projector

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// rebuilding returns a worker with the given projections and a function that drains it.
func rebuilding(t *testing.T, pool *pgxpool.Pool, projections ...projection.Projection) (p *Projector, drain func()) {
	t.Helper()
	p, err := New(Config{Pool: pool, Projections: projections})
	if err != nil {
		t.Fatal(err)
	}
	return p, func() {
		t.Helper()
		if _, err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOneWorkerExchangesTablesWithoutATransactionThatWaits looks for idle transactions while the
// new tables are verified. The server ends idle transactions (idle_in_transaction_session_timeout),
// and their locks with them.
func TestOneWorkerExchangesTablesWithoutATransactionThatWaits(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	noteIn(t, pool, "a", 2)
	_, drainOne := rebuilding(t, pool, onceEach(1))
	drainOne()
	other, _ := rebuilding(t, pool, onceEach(2))
	var verified sync.Once
	var idle int
	var second error
	h := &projection.Handlers{
		Name: "seen", Version: 2, Tables: `CREATE TABLE seen (campaign_id text, seq bigint,
		PRIMARY KEY (campaign_id, seq))`,
		On: []projection.Handler{
			projection.Handle("noted", func(ctx context.Context, g *projection.Group, e event.Event, _ struct{}) error {
				tx, err := g.Tx(ctx)
				if err != nil {
					return err
				}
				var own int
				if err := tx.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&own); err != nil {
					return err
				}
				var exchanging bool
				if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM tidemark.projections WHERE name = 'seen~next'
			AND state = 'active')`).Scan(&exchanging); err != nil {
					return err
				}
				if exchanging {
					verified.Do(func() {
						if err = pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
					AND state = 'idle in transaction' AND pid <> $1`, own).Scan(&idle); err != nil {
							return
						}
						if err = other.Register(ctx); err == nil {
							second = other.rebuilder.SwapIfReady(ctx, "seen", other.base.Set("seen", registry.NextTables, 2))
						}
					})
				}
				if err != nil {
					return err
				}
				g.Queue(`INSERT INTO seen VALUES ($1, $2)`, e.CampaignID, e.Seq)
				return nil
			}),
		},
	}
	_, drainTwo := rebuilding(t, pool, h)
	drainTwo()
	if idle > 0 {
		t.Errorf("%d transactions wait while the tables are verified", idle)
	}
	if !errors.Is(second, rebuild.ErrNotYet) {
		t.Errorf("a second worker that would exchange them: %v", second)
	}
	if n := number(t, pool, `SELECT count(*) FROM tidemark.projections WHERE name = 'seen' AND version = 2`); n != 1 {
		t.Error("they are not exchanged")
	}
	if n := number(t, pool, `SELECT count(*) FROM tidemark.duties`); n > 0 {
		t.Error("the duty is left")
	}
}

// TestARefusedActLeavesTheWayBack has a swap and a removal refused because other objects depend on
// the live tables.
func TestARefusedActLeavesTheWayBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	noteIn(t, pool, "a", 2)
	_, drainOne := rebuilding(t, pool, onceEach(1))
	drainOne()
	_, drainTwo := rebuilding(t, pool, onceEach(1), onceEach(2))
	drainTwo()
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE MATERIALIZED VIEW counted AS SELECT count(*) FROM seen`)
	_, drainThree := rebuilding(t, pool, onceEach(1), onceEach(2), onceEach(3))
	drainThree()
	sets := func(want string) {
		t.Helper()
		var got string
		if err := pool.QueryRow(t.Context(), `SELECT string_agg(name || ' ' || version, ', ' ORDER BY name)
			FROM tidemark.projections`).Scan(&got); err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	var refusal string
	if err := pool.QueryRow(t.Context(), `SELECT refusal FROM tidemark.rebuilds`).Scan(&refusal); err != nil ||
		!strings.Contains(refusal, "counted") {
		t.Errorf("refusal %q, %v", refusal, err)
	}
	sets("seen 2, seen~next 3, seen~previous 1")
	if err := rebuild.Remove(t.Context(), pool, "seen", true, operator()); err == nil ||
		!strings.Contains(err.Error(), "other objects depend on it") {
		t.Errorf("removed: %v", err)
	}
	sets("seen 2, seen~next 3, seen~previous 1")

	exec(`DROP MATERIALIZED VIEW counted; UPDATE tidemark.rebuilds SET refused_at = NULL`)
	drainThree()
	sets("seen 3, seen~previous 2")
	if err := rebuild.Rollback(t.Context(), pool, "seen", rebuild.RollbackOptions{}, operator()); err != nil {
		t.Fatal(err)
	}
	sets("seen 2, seen~previous 3")
}
