package telemetry_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/telemetry"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestATracerMeasuresAppendsAndNothingElse(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	tracer, err := telemetry.NewTracer(registry)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := telemetry.NewTracer(registry); err == nil {
		t.Error("a second tracer for one registry is accepted")
	}
	cfg, err := pgxpool.ParseConfig(pgtest.UTF8(pgtest.URL(t)))
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	appendOne := func(expect journal.Expect) error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, "a", expect, event.Event{Type: "noted"})
			return err
		})
	}
	if err := appendOne(journal.Any); err != nil {
		t.Fatal(err)
	}
	if err := appendOne(journal.Exactly(7)); err == nil {
		t.Fatal("an append at the wrong seq went through")
	}
	if _, err := feed.Floor(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "tidemark_append_duration_seconds" {
		t.Fatalf("got %v, %v", families, err)
	}
	for _, m := range families[0].GetMetric() {
		if n := m.GetHistogram().GetSampleCount(); n != 1 {
			t.Errorf("%v was measured %d times", m.GetLabel(), n)
		}
	}
}
