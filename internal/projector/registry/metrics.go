package registry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/slice"
)

// Metrics are the projector's metrics.
type Metrics struct {
	Groups      GroupMetrics
	Projections struct { // results
		Through, Failed, Retried, Dead, Skipped, Abandoned *prometheus.CounterVec

		Stuck prometheus.Gauge
	}
	Leases struct { // of campaigns, by this worker
		Count    prometheus.Gauge
		Lost     *prometheus.CounterVec
		Rejected prometheus.Counter
	}
	Worker struct { // how it finds work, and its circuit breaker
		Claim              prometheus.Histogram
		Listening, Breaker prometheus.Gauge
		Wakeups, Gaps      *prometheus.CounterVec
	}
	Inline struct{ Applied, Left prometheus.Counter }       // in appending transactions
	Shadow struct{ Applied, Failed *prometheus.CounterVec } // of a shadow worker, rolled back
}

// GroupMetrics count transactions that apply events.
type GroupMetrics struct {
	applied, groups prometheus.Counter
	events          prometheus.Histogram // in a group
	Duration        prometheus.Histogram
}

// Label values, and common settings of histograms.
const (
	nativeFactor = 1.1    // between the buckets of a native histogram
	shortest     = 0.0005 // smallest bucket, in seconds

	LostTakenOver = "taken_over"
	LostExpired   = "expired"

	GapRepaired = "repaired"
	GapFailed   = "failed"
)

// NewMetrics registers the metrics. Counters by projection start at 0 for each projection.
func NewMetrics(reg prometheus.Registerer, projections []*Projection) (*Metrics, error) {
	r := &registration{with: reg}
	names := slice.Of(projections, func(k *Projection) string { return k.Name })
	byProjection := func(name, help string) *prometheus.CounterVec {
		return r.counters(name, help, "projection", names...)
	}
	m := &Metrics{Groups: GroupMetrics{
		applied: r.counter("tidemark_events_applied_total", "Events whose effects have been committed."),
		groups:  r.counter("tidemark_groups_applied_total", "Transactions that applied events."),
		events:  r.histogram("tidemark_group_events", "Events applied in a transaction.", 1),
		Duration: r.histogram("tidemark_apply_duration_seconds",
			"Time from the start of a group to its commit, including a retry.", shortest),
	}}
	p, l, w := &m.Projections, &m.Leases, &m.Worker
	p.Through = byProjection("tidemark_projection_applied_total", "Events that a projection has processed and committed.")
	p.Failed = byProjection("tidemark_projection_failures_total", "Attempts that failed.")
	p.Retried = byProjection("tidemark_projection_retries_total", "Attempts at events that had failed before.")
	p.Dead = byProjection("tidemark_projection_dead_total", "Attempts that failed and left the campaign dead.")
	p.Skipped = byProjection("tidemark_projection_skipped_total", "Events that failed and were skipped, by policy.")
	p.Abandoned = byProjection("tidemark_projections_abandoned_total",
		"Calls of projections that did not return within their timeout, nor when cancelled.")
	p.Stuck = r.gauge("tidemark_projections_stuck",
		"Abandoned calls that have not returned since: each keeps a goroutine.")
	l.Count = r.gauge("tidemark_leases_held", "Campaigns leased by this worker.")
	l.Lost = r.counters("tidemark_leases_lost_total",
		"Leases lost with work under way: taken over by another owner, or not renewed in time.",
		"reason", LostTakenOver, LostExpired)
	l.Rejected = r.counter("tidemark_fence_rejections_total", "Transactions refused because a generation was stale.")
	w.Claim = r.histogram("tidemark_claim_duration_seconds", "Time of a claim.", shortest)
	w.Wakeups = r.counters("tidemark_wakeups_total",
		"Ends of a sleep: notified by an append or an operator, released by a campaign that blocked others, "+
			"polled by the clock.", "cause", string(Elapsed), string(Notified), string(Finished))
	w.Listening = r.gauge("tidemark_listening", "Whether notifications arrive.")
	w.Breaker = r.gauge("tidemark_breaker_state",
		"Whether the worker keeps away from a database that fails: 0 no (closed), 1 trying one campaign "+
			"(half-open), 2 yes (open).")
	w.Gaps = r.counters("tidemark_gaps_total",
		"Campaigns with events but without a work item, by whether they could be repaired.",
		"outcome", GapRepaired, GapFailed)
	m.Inline.Applied = r.counter("tidemark_inline_events_total",
		"Events applied by the transactions that appended them, if those have committed.")
	m.Inline.Left = r.counter("tidemark_inline_left_total",
		"Inline applies that failed and were left to the workers.")
	m.Shadow.Applied = byProjection("tidemark_shadow_events_total",
		"Events that a shadow worker applied and rolled back.")
	m.Shadow.Failed = register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_shadow_failures_total", Help: "Failures of a projection at an event in a shadow worker.",
	}, []string{"projection", "class"}))
	for _, name := range names {
		for _, class := range failure.Classes() {
			m.Shadow.Failed.WithLabelValues(name, string(class))
		}
	}
	return m, errors.Join(r.errs...)
}

// Count counts a transaction that has applied n events.
func (m *GroupMetrics) Count(n int) {
	m.applied.Add(float64(n))
	m.groups.Inc()
	m.events.Observe(float64(n))
}

type registration struct {
	with prometheus.Registerer
	errs []error
}

func register[C prometheus.Collector](r *registration, c C) C {
	r.errs = append(r.errs, r.with.Register(c))
	return c
}

func (r *registration) counter(name, help string) prometheus.Counter {
	return register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func (r *registration) gauge(name, help string) prometheus.Gauge {
	return register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

// counters returns a counter vector by a label. All values exist from the start.
func (r *registration) counters(name, help, label string, values ...string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		vec.WithLabelValues(value)
	}
	return register(r, vec)
}

// histogram has 16 buckets from first on, each twice as wide as the one before.
func (r *registration) histogram(name, help string, first float64) prometheus.Histogram {
	return register(r, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help,
		Buckets: prometheus.ExponentialBuckets(first, 2, 16), NativeHistogramBucketFactor: nativeFactor,
	}))
}
