package projector

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	applied prometheus.Counter
	groups  prometheus.Counter
	failed  *prometheus.CounterVec
	lost    prometheus.Counter
	held    prometheus.Gauge
	claim   prometheus.Histogram
	apply   prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 16)
	m := &metrics{
		applied: prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_events_applied_total", Help: "Events whose effects have been committed."}),
		groups:  prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_groups_applied_total", Help: "Transactions that applied events."}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_projection_failures_total",
			Help: "Attempts that failed and were deferred.",
		}, []string{"projection"}),
		lost:  prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_leases_lost_total", Help: "Leases that were found taken over."}),
		held:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemark_leases_held", Help: "Campaigns leased by this worker."}),
		claim: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tidemark_claim_duration_seconds", Help: "Time of a claim.", Buckets: buckets}),
		apply: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tidemark_apply_duration_seconds", Help: "Time of a group's transaction.", Buckets: buckets}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.applied, m.groups, m.failed, m.lost, m.held, m.claim, m.apply} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}
