package projector

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	applied   prometheus.Counter
	groups    prometheus.Counter
	events    prometheus.Histogram // in a group
	through   *prometheus.CounterVec
	failed    *prometheus.CounterVec
	retried   *prometheus.CounterVec
	dead      *prometheus.CounterVec
	skipped   *prometheus.CounterVec
	lost      *prometheus.CounterVec
	rejected  prometheus.Counter
	wakeups   *prometheus.CounterVec
	listening prometheus.Gauge
	gaps      *prometheus.CounterVec
	held      prometheus.Gauge
	breaker   prometheus.Gauge
	abandoned *prometheus.CounterVec
	stuck     prometheus.Gauge
	claim     prometheus.Histogram
	apply     prometheus.Histogram

	inline     prometheus.Counter
	inlineLeft prometheus.Counter

	shadowApplied *prometheus.CounterVec
	shadowFailed  *prometheus.CounterVec

	verified   *prometheus.CounterVec
	mismatches *prometheus.CounterVec
}

const (
	nativeFactor = 1.1 // between the buckets of a native histogram

	lostTakenOver = "taken_over"
	lostExpired   = "expired"

	gapRepaired = "repaired"
	gapFailed   = "failed"
)

// newMetrics registers the metrics. Counters of the projections are there, at 0, before anything has happened.
func newMetrics(reg prometheus.Registerer, projections []*known) (*metrics, error) {
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 16)
	m := &metrics{
		applied: prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_events_applied_total", Help: "Events whose effects have been committed."}),
		groups:  prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_groups_applied_total", Help: "Transactions that applied events."}),
		failed:  byProjection("tidemark_projection_failures_total", "Attempts that failed."),
		retried: byProjection("tidemark_projection_retries_total", "Attempts at events that had failed before."),
		dead:    byProjection("tidemark_projection_dead_total", "Attempts that failed and left their pair dead."),
		skipped: byProjection("tidemark_projection_skipped_total", "Events that failed and were skipped, by policy."),
		events: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidemark_group_events", Help: "Events applied in a transaction.", Buckets: prometheus.ExponentialBuckets(1, 2, 16), NativeHistogramBucketFactor: nativeFactor,
		}),
		through:  byProjection("tidemark_projection_applied_total", "Events that a projection has gone through, committed."),
		lost:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_leases_lost_total", Help: "Leases lost with work under way: taken over by another owner, or not renewed in time."}, []string{"reason"}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_fence_rejections_total", Help: "Transactions refused because a generation was stale."}),
		wakeups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_wakeups_total", Help: "Ends of a sleep: notified by an append or an operator, released by a campaign that was in the way, polled by the clock.",
		}, []string{"cause"}),
		listening: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemark_listening", Help: "Whether notifications arrive."}),
		gaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_gaps_total", Help: "Campaigns that nobody would have come to, by whether they could be repaired.",
		}, []string{"outcome"}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemark_leases_held", Help: "Campaigns leased by this worker."}),
		breaker: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_breaker_state", Help: "Whether the worker keeps away from a database that fails: 0 no (closed), 1 trying one campaign (half-open), 2 yes (open).",
		}),
		abandoned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_projections_abandoned_total", Help: "Calls of projections that did not return within their timeout, nor when they were told.",
		}, []string{"projection"}),
		stuck: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemark_projections_stuck", Help: "Abandoned calls that have not returned since: each keeps a goroutine."}),
		claim: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tidemark_claim_duration_seconds", Help: "Time of a claim.", Buckets: buckets, NativeHistogramBucketFactor: nativeFactor}),
		apply: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidemark_apply_duration_seconds", Help: "From the start of a group to its commit, a second try included.", Buckets: buckets, NativeHistogramBucketFactor: nativeFactor,
		}),
	}
	m.inline = prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_inline_events_total", Help: "Events applied by the transactions that appended them, if those have committed."})
	m.inlineLeft = prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_inline_left_total", Help: "Inline applies that failed and were left to the workers."})
	m.shadowApplied = byProjection("tidemark_shadow_events_total", "Events that a shadow worker applied and rolled back.")
	m.shadowFailed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_shadow_failures_total", Help: "Events on which a projection failed in a shadow worker, each time it came to them.",
	}, []string{"projection", "class"})
	m.verified = byProjection("tidemark_verify_campaigns_total", "Campaigns verified in the background.")
	m.mismatches = byProjection("tidemark_verify_mismatches_total", "Rows that were found not to be as the journal says, each time a campaign was verified in the background.")
	for _, reason := range []string{lostTakenOver, lostExpired} {
		m.lost.WithLabelValues(reason)
	}
	for _, cause := range []awoken{elapsed, notified, finished} {
		m.wakeups.WithLabelValues(cause.String())
	}
	for _, outcome := range []string{gapRepaired, gapFailed} {
		m.gaps.WithLabelValues(outcome)
	}
	for _, k := range projections {
		for _, vec := range []*prometheus.CounterVec{m.through, m.failed, m.retried, m.dead, m.skipped, m.abandoned, m.shadowApplied, m.verified, m.mismatches} {
			vec.WithLabelValues(k.name)
		}
		for _, class := range Classes() {
			m.shadowFailed.WithLabelValues(k.name, string(class))
		}
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.verified, m.mismatches, m.shadowApplied, m.shadowFailed, m.inline, m.inlineLeft, m.applied, m.groups, m.events, m.through, m.rejected, m.wakeups, m.listening, m.gaps, m.failed, m.retried, m.dead, m.skipped, m.lost, m.held, m.breaker, m.abandoned, m.stuck, m.claim, m.apply} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

// group counts a transaction that has applied n events.
func (m *metrics) group(n int) {
	m.applied.Add(float64(n))
	m.groups.Inc()
	m.events.Observe(float64(n))
}

func byProjection(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"projection"})
}

// awoken is what ended a sleep.
type awoken int

const (
	elapsed  awoken = iota
	notified        // by an append
	finished        // a worker has given back what was in the way
)

func (a awoken) String() string {
	switch a {
	case notified:
		return "notified"
	case finished:
		return "released"
	default:
		return "polled"
	}
}
