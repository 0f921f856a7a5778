package monitoring_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tidemark-go/tidemark/pkg/telemetry"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// series holds the scraped series: for each metric its series, each as a map of labels.
type series map[string][]map[string]string

// add adds the metrics of one process. It fails the test if a series has other labels, or another
// type, than the metric's documentation says.
func (s series) add(t *testing.T, metrics map[string]metric, families map[string]*dto.MetricFamily) {
	t.Helper()
	for name, family := range families {
		for _, m := range family.GetMetric() {
			labels, names := map[string]string{}, labelSet{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()], names[l.GetName()] = l.GetValue(), true
			}
			s[name] = append(s[name], labels)
			documented, ok := metrics[name]
			if !ok {
				continue
			}
			if kind := strings.ToLower(family.GetType().String()); kind != documented.kind ||
				names.String() != documented.labels.String() {
				t.Errorf("%s is a %s with the labels %q; docs/reference/metrics.md says, a %s with %q", name, kind, names, documented.kind,
					documented.labels)
			}
		}
	}
}

// has reports whether a selector would find something: a series whose labels match it, ignoring
// Grafana's variables.
func (s series) has(v *parser.VectorSelector) bool {
	name := v.Name
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(name, suffix); cut && s[base] != nil {
			name = base
		}
	}
	for _, labels := range s[name] {
		all := true
		for _, m := range v.LabelMatchers {
			if m.Name == model.MetricNameLabel || m.Name == "job" || m.Value == chosen {
				continue
			}
			all = all && m.Matches(labels[m.Name])
		}
		if all {
			return true
		}
	}
	return false
}

// TestWorkersExportWhatIsAskedFor runs workers of two groups, one with a publisher, makes them fail
// at some events, and checks that everything that rules and dashboards select is there.
func TestWorkersExportWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	metrics := documented(t)
	pool, application := traced(t)
	if _, err := pool.Exec(t.Context(), besides); err != nil {
		t.Fatal(err)
	}
	urls := []string{
		worker(t, pool, "default", "sessions", "--publish-url", "memory://memory"),
		worker(t, pool, "search", "words"),
	}
	for i := range 5 {
		appendEvents(t, pool, fmt.Sprint("c", i), "noted", "noted", "noted")
	}
	appendEvents(t, pool, "flaky", "noted", "flaky", "noted")
	appendEvents(t, pool, "poison", "noted", "poison", "noted")
	if _, err := pool.Exec(t.Context(), "VACUUM tidemark.outbox"); err != nil {
		t.Fatal(err)
	}
	asked := selectors(t)

	var found series
	all := func() error {
		found = series{}
		for _, url := range urls {
			found.add(t, metrics, scrape(t, url))
		}
		families, err := application.Gather()
		if err != nil {
			t.Fatal(err)
		}
		own := map[string]*dto.MetricFamily{}
		for _, f := range families {
			own[f.GetName()] = f
		}
		found.add(t, metrics, own)
		var missing []error
		for where, v := range asked {
			if !found.has(v) {
				missing = append(missing, fmt.Errorf("%s: no worker has %s", where, v))
			}
		}
		return errors.Join(missing...)
	}
	deadline := time.Now().Add(2 * time.Minute)
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	for err := all(); err != nil; err = all() {
		if t.Failed() || time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-ticks.C
	}
	for name, of := range found {
		for _, labels := range of {
			for label, value := range labels {
				if strings.HasPrefix(value, "c0") || value == "flaky" || value == "poison" {
					t.Errorf("%s has a campaign as its label %s", name, label)
				}
			}
		}
	}
}

// traced returns a database and the metrics of an application that appends to it.
func traced(t *testing.T) (*pgxpool.Pool, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	tracer, err := telemetry.NewTracer(registry)
	if err != nil {
		t.Fatal(err)
	}
	cfg := pgtest.New(t).Config()
	cfg.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool, registry
}

// selectors returns the selectors of rules and dashboards for worker metrics, by where they are
// used.
func selectors(t *testing.T) map[string]*parser.VectorSelector {
	t.Helper()
	all := map[string]*parser.VectorSelector{}
	add := func(where, expr string) {
		parser.Inspect(parse(t, where, expr), func(node parser.Node, _ []parser.Node) error {
			v, ok := node.(*parser.VectorSelector)
			if ok && v.Name != "up" && v.Name != "ALERTS" && !strings.Contains(v.Name, ":") {
				all[fmt.Sprintf("%s: %s", where, v)] = v
			}
			return nil
		})
	}
	for _, r := range rules(t) {
		add(r.file+" "+r.name(), r.Expr)
	}
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				add(d.file+" "+p.Title, d.substitute(t, target.Expr))
			}
		}
	}
	return all
}
