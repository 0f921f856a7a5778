package publisher

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	published *prometheus.CounterVec
	failures  *prometheus.CounterVec
	refused   *prometheus.CounterVec
	ghosts    *prometheus.CounterVec
	lost      prometheus.Counter
	held      prometheus.Gauge
	reads     prometheus.Counter
	send      *prometheus.HistogramVec
}

// newMetrics registers the metrics. Those of the pairs are there, at 0, before anything has happened.
func newMetrics(reg prometheus.Registerer, pairs []Key) (*metrics, error) {
	pair := []string{"topic", "publisher"}
	m := &metrics{
		published: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_events_published_total", Help: "Events that a sink has taken."}, pair),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_publish_failures_total", Help: "Batches that failed as a whole; no event is blamed.",
		}, pair),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_events_refused_total", Help: "Attempts at events that a sink refused by themselves."}, pair),
		ghosts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_publish_ghosts_total", Help: "Events that were sent and that the journal has no more, found after a failover or a restore.",
		}, pair),
		lost:  prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_publications_lost_total", Help: "Pairs that were found taken over."}),
		held:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemark_publications_held", Help: "Pairs of topic and publisher leased by this process."}),
		reads: prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_publish_reads_total", Help: "Reads of the journal, each for all pairs near it."}),
		send: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tidemark_publish_duration_seconds", Help: "Time of a round of batches.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 17),
			NativeHistogramBucketFactor: 1.1,
		}, pair),
	}
	for _, p := range pairs {
		for _, vec := range []*prometheus.CounterVec{m.published, m.failures, m.refused, m.ghosts} {
			vec.WithLabelValues(p.Topic, p.Publisher)
		}
		m.send.WithLabelValues(p.Topic, p.Publisher)
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.published, m.failures, m.refused, m.ghosts, m.lost, m.held, m.reads, m.send} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}
