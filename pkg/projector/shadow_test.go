package projector

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/heavy"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// shadowed is a projection that fails on event 3 of campaigns whose name ends in 3, and otherwise
// writes a row for each event.
func shadowed() projection.Projection {
	return projection.Handlers{
		Name: "seen", Version: 1, Tables: `CREATE TABLE seen (campaign_id text, seq bigint,
		PRIMARY KEY (campaign_id, seq))`,
		On: []projection.Handler{
			projection.Handle("noted", func(_ context.Context, g *projection.Group, e event.Event, _ struct{}) error {
				if e.CampaignID[len(e.CampaignID)-1] == '3' && e.Seq == 3 {
					g.Queue(`SELECT 1/0`)
				}
				g.Queue(`INSERT INTO seen VALUES ($1, $2)`, e.CampaignID, e.Seq)
				return nil
			}),
		},
	}
}

// footprint returns everything that a shadow must not change.
func footprint(t *testing.T, pool *pgxpool.Pool) (all []string) {
	t.Helper()
	for _, table := range []string{
		"tidemark.outbox", "tidemark.failed", "tidemark.leases", "tidemark.failure_log",
		"tidemark.crashes", "tidemark.pauses", "tidemark.workers", "tidemark.projections", "seen",
	} {
		rows, err := pool.Query(t.Context(), `SELECT '`+table+`' || ' ' || r::text || ' ' || r.xmin::text FROM `+
			table+` r ORDER BY 1`)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, lines...)
	}
	return all
}

func noteIn(t *testing.T, pool *pgxpool.Pool, campaign string, n int) {
	t.Helper()
	events := make([]event.Event, n)
	for i := range events {
		events[i].Type = "noted"
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any, events...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAShadowWorkerLeavesEverythingAsItWas(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	applying, err := New(Config{Pool: pool, Projections: []projection.Projection{shadowed()}})
	if err != nil {
		t.Fatal(err)
	}
	// Some events are applied. More failed campaigns are due than one claim finds. The other events
	// wait.
	const pairs = apply.ShadowCampaigns + 4
	for i := range pairs {
		noteIn(t, pool, fmt.Sprintf("old%02d3", i), 4)
	}
	noteIn(t, pool, "old4", 2)
	if _, err := applying.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE tidemark.failed SET status = 'failed',
		next_attempt_at = now()`); err != nil {
		t.Fatal(err)
	}
	const campaigns = 40
	for i := range campaigns {
		noteIn(t, pool, fmt.Sprintf("c%02d", i), 4)
	}
	registry := prometheus.NewRegistry()
	shadowing, err := New(Config{
		Pool: pool, Projections: []projection.Projection{shadowed()}, Mode: projection.ModeShadowOnly,
		Registerer: registry, GroupEvents: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := shadowing.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := footprint(t, pool)
	s := apply.NewShadow(shadowing.applier)
	// More rounds than a campaign has attempts, twice over. Each round does the same, so they stand
	// for an hour of rounds.
	const rounds = 20
	for range rounds {
		if _, err := s.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	after := footprint(t, pool)
	if len(before) != len(after) {
		t.Fatalf("%d rows before, %d after", len(before), len(after))
	}
	for i := range before {
		if before[i] != after[i] {
			t.Errorf("was %s\nis  %s", before[i], after[i])
		}
	}
	// Four of 40 campaigns end in 3 and fail at event 3 of 4. The failed campaigns fail once a
	// round. A group has fewer events than a campaign.
	if n := total(t, registry, "tidemark_shadow_events_total"); n != float64(rounds*(36*4+4*2)) {
		t.Errorf("%v events would have been applied in %d rounds, want %d", n, rounds, rounds*(36*4+4*2))
	}
	if n := total(t, registry, "tidemark_shadow_failures_total"); n != float64(rounds*(4+pairs)) {
		t.Errorf("%v failures in %d rounds, want %d", n, rounds, rounds*(4+pairs))
	}
}

// total returns the sum of a counter over its labels.
func total(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestAShadowWorkerDoesNoHarmBesideAnApplyWorker(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ctx, stop := context.WithCancel(t.Context())
	shadowing, err := New(Config{
		Pool: pool, Projections: []projection.Projection{shadowed()}, Mode: projection.ModeShadowOnly,
		PollInterval: 1e6,
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- shadowing.Run(ctx) }()
	applying, err := New(Config{Pool: pool, Projections: []projection.Projection{shadowed()}, Concurrency: 2})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 10 {
		for i := range 10 {
			noteIn(t, pool, fmt.Sprintf("c%d_%d", i, round%2), 3)
		}
		if _, err := applying.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	// The server can still be rolling back for a client that is gone, and Drain skips locked rows.
	for locked := 1; locked > 0; {
		const locks = `SELECT count(*) FROM pg_locks WHERE database = (SELECT oid FROM pg_database
			WHERE datname = current_database())
			AND relation = 'tidemark.leases'::regclass AND mode = 'RowExclusiveLock'`
		if err := pool.QueryRow(t.Context(), locks).Scan(&locked); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := applying.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var applied, behind int
	if err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM seen),
		(SELECT count(*) FROM tidemark.failed)`).Scan(&applied, &behind); err != nil {
		t.Fatal(err)
	}
	if applied != 300 || behind != 0 {
		t.Errorf("%d events are applied and %d pairs behind, want 300 and 0", applied, behind)
	}
}

func TestAShadowPassesOverACampaignThatTakesTooLongToRead(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	registry := prometheus.NewRegistry()
	shadowing, err := New(Config{
		Pool: pool, Projections: []projection.Projection{shadowed()}, Mode: projection.ModeShadowOnly,
		Registerer: registry, ApplyTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := shadowing.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, campaign := range []string{"a", "b", "c"} {
		noteIn(t, pool, campaign, 2)
	}
	heavy.Make(t, pool, "b", 2, 2500*time.Millisecond)
	if n, err := apply.NewShadow(shadowing.applier).Round(t.Context()); err != nil || n != 4 {
		t.Errorf("%d events of the other campaigns would have been applied, want 4: %v", n, err)
	}
}
