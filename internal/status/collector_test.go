package status

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/tidemark-go/tidemark/test/support/leaktest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func collector(
	t *testing.T, pool *pgxpool.Pool, owner string, interval time.Duration,
) (*Collector, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	c, err := NewCollector(CollectorConfig{
		Pool: pool, Registerer: registry, Owner: owner, Interval: interval,
		Timeout: 20 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, registry
}

// exported returns the names and values that a scrape gets.
func exported(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		names[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return names
}

func mustStep(t *testing.T, c *Collector) {
	t.Helper()
	if err := c.step(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestOneReplicaExportsTheFiguresAndAnotherTakesOver(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a, fromA := collector(t, pool, "a", time.Minute)
	b, fromB := collector(t, pool, "b", time.Minute)
	speaks := func(r *prometheus.Registry) bool {
		names := exported(t, r)
		_, figures := names["tidemark_status_timestamp_seconds"]
		if figures != (names["tidemark_status_collecting"] == 1) {
			t.Errorf("figures are exported: %t, and tidemark_status_collecting is %v", figures,
				names["tidemark_status_collecting"])
		}
		return figures
	}
	mustStep(t, a)
	mustStep(t, b)
	if !speaks(fromA) || speaks(fromB) {
		t.Fatal("both replicas export the figures, or none does")
	}
	// The duty outlives the figures, so no other worker exports any while they are valid.
	var left float64
	if err := pool.QueryRow(t.Context(),
		"SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM tidemark.duties").Scan(&left); err != nil {
		t.Fatal(err)
	}
	if figures := dutyIntervals*time.Minute - time.Since(a.latest.Load().at); left < figures.Seconds() || left > 180 {
		t.Errorf("the duty is left for %v s, the figures for %s", left, figures)
	}
	// Replica a goes silent: it has neither renewed nor released the duty.
	if _, err := pool.Exec(t.Context(), "UPDATE tidemark.duties SET expires_at = clock_timestamp()"); err != nil {
		t.Fatal(err)
	}
	outdate(a)
	mustStep(t, b)
	if speaks(fromA) || !speaks(fromB) {
		t.Fatal("the other replica has not taken over")
	}
	// Replica a returns and no longer has the duty.
	mustStep(t, a)
	mustStep(t, b)
	if speaks(fromA) || !speaks(fromB) {
		t.Error("the replica that came back exports figures, or the other has stopped")
	}
	// The other replica takes over at once from one that shuts down cleanly.
	b.drop(t.Context())
	mustStep(t, a)
	if speaks(fromB) || !speaks(fromA) {
		t.Error("the duty that was given up is not taken, or who gave it up goes on exporting")
	}
}

// outdate makes a collector's figures older than the limit.
func outdate(c *Collector) {
	c.latest.Store(&reading{
		status: c.latest.Load().status,
		at:     time.Now().Add(-dutyIntervals*c.cfg.Interval - time.Millisecond),
	})
}

func TestAScrapeDoesNotWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), "INSERT INTO tidemark.consumer_groups (name) VALUES ('g')"); err != nil {
		t.Fatal(err)
	}
	c, registry := collector(t, pool, "a", time.Minute)
	c.reader.Timeout = time.Second
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "LOCK tidemark.outbox"); err != nil {
		t.Fatal(err)
	}
	mustStep(t, c)
	names := exported(t, registry)
	for name, want := range map[string]bool{
		"tidemark_journal_position": true, "tidemark_inbox_rows": true,
		"tidemark_queue_entries": false, "tidemark_group_lag_events": false,
	} {
		if _, is := names[name]; is != want {
			t.Errorf("with the outbox locked %s is exported: %t", name, is)
		}
	}
	if s := c.current(); s == nil || s.Unread[SectionQueue] == nil || s.Unread[SectionLag] == nil {
		t.Errorf("got %+v, want that the queue and the lag could not be read", s)
	}
	_ = tx.Rollback(t.Context())
	pool.Close()
	if err := c.step(t.Context()); err == nil {
		t.Error("a pool that is closed answers")
	}
	if len(exported(t, registry)) < len(names) {
		t.Error("what was read a moment ago is exported no more")
	}
}

func TestFiguresThatAreOldAreNotExported(t *testing.T) {
	t.Parallel()
	c, registry := collector(t, pgtest.New(t), "a", time.Minute)
	mustStep(t, c)
	outdate(c)
	if names := exported(t, registry); names["tidemark_status_collecting"] != 0 || len(names) > 3 {
		t.Errorf("old figures are exported: %v", names)
	}
}

func TestRunCollectsUntilItIsStopped(t *testing.T) { //nolint:paralleltest // goleak looks at all goroutines
	pool := pgtest.New(t)
	ignored := goleak.IgnoreCurrent()
	c, registry := collector(t, pool, "a", time.Second)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	deadline := time.Now().Add(2 * time.Minute)
	for exported(t, registry)["tidemark_status_collecting"] == 0 {
		if time.Now().After(deadline) {
			t.Fatal("nothing is collected")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	var duties int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM tidemark.duties").Scan(&duties); err != nil || duties != 0 {
		t.Errorf("%d duties are left behind, %v", duties, err)
	}
	leaktest.None(t, ignored, goleak.IgnoreTopFunction("github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck"))
}

func TestReadKnowsItsSections(t *testing.T) {
	t.Parallel()
	reader := &Reader{Pool: pgtest.New(t)}
	s, err := reader.Read(t.Context(), SectionPublishers, SectionPauses)
	if err != nil || s.Publishers == nil || s.Pauses == nil || s.Queue != nil || s.Postgres != nil || s.At.IsZero() {
		t.Errorf("got %+v, %v, want two sections, empty", s, err)
	}
	if s, err = reader.Read(t.Context()); err != nil || s.Unread != nil || s.Queue == nil || s.Postgres == nil ||
		len(s.Postgres.Tables) != 10 || s.Postgres.WraparoundLeft < 1e9 {
		t.Errorf("got %+v, %v, want all sections", s, err)
	}
	if _, err := reader.Read(t.Context(), "wather"); err == nil || !strings.Contains(err.Error(), `"workers"`) {
		t.Errorf("a section that there is not: %v", err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	stop(why)
	if _, err := reader.Read(ctx); !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}
