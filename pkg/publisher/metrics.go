package publisher

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// metrics are those of a relay. They are safe for concurrent use.
type metrics struct {
	Published *prometheus.CounterVec
	Failures  *prometheus.CounterVec
	Refused   *prometheus.CounterVec
	Ghosts    *prometheus.CounterVec
	Lost      prometheus.Counter
	Held      prometheus.Gauge
	Send      *prometheus.HistogramVec
}

// newMetrics registers the metrics. Those of the pairs exist from the start, at 0.
func newMetrics(reg prometheus.Registerer, pairs []publications.Key) (*metrics, error) {
	pair := []string{"topic", "publisher"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, pair)
	}
	m := &metrics{
		Published: counter("tidemark_events_published_total", "Events that a sink has taken."),
		Failures:  counter("tidemark_publish_failures_total", "Batches that failed as a whole; no event is blamed."),
		Refused:   counter("tidemark_events_refused_total", "Attempts at events that a sink refused."),
		Ghosts: counter("tidemark_publish_ghosts_total",
			"Events that were sent but are missing from the journal, found after a failover or a restore."),
		Lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_publications_lost_total", Help: "Pairs that another process took over.",
		}),
		Held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_publications_held", Help: "Pairs of topic and publisher leased by this process.",
		}),
		Send: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tidemark_publish_duration_seconds", Help: "Time of a round of batches.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 17), NativeHistogramBucketFactor: 1.1,
		}, pair),
	}
	for _, p := range pairs {
		for _, vec := range []*prometheus.CounterVec{m.Published, m.Failures, m.Refused, m.Ghosts} {
			vec.WithLabelValues(p.Topic, p.Publisher)
		}
		m.Send.WithLabelValues(p.Topic, p.Publisher)
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.Published, m.Failures, m.Refused, m.Ghosts, m.Lost, m.Held, m.Send,
	} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}
