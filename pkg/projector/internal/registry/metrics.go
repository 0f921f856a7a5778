package registry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/failure"
)

// Metrics are counted where things happen.
type Metrics struct {
	applied   prometheus.Counter
	groups    prometheus.Counter
	events    prometheus.Histogram // in a group
	Through   *prometheus.CounterVec
	Failed    *prometheus.CounterVec
	Retried   *prometheus.CounterVec
	Dead      *prometheus.CounterVec
	Skipped   *prometheus.CounterVec
	Lost      *prometheus.CounterVec
	Rejected  prometheus.Counter
	Wakeups   *prometheus.CounterVec
	Listening prometheus.Gauge
	Gaps      *prometheus.CounterVec
	Held      prometheus.Gauge
	Breaker   prometheus.Gauge
	Abandoned *prometheus.CounterVec
	Stuck     prometheus.Gauge
	Claim     prometheus.Histogram
	Apply     prometheus.Histogram

	Inline     prometheus.Counter
	InlineLeft prometheus.Counter

	ShadowApplied *prometheus.CounterVec
	ShadowFailed  *prometheus.CounterVec

	Verified   *prometheus.CounterVec
	Mismatches *prometheus.CounterVec
}

// Values of labels, and what histograms have in common.
const (
	nativeFactor = 1.1 // between the buckets of a native histogram

	LostTakenOver = "taken_over"
	LostExpired   = "expired"

	GapRepaired = "repaired"
	GapFailed   = "failed"
)

// NewMetrics registers the metrics. Counters of the projections are there, at 0, before anything has happened.
func NewMetrics(reg prometheus.Registerer, projections []*Projection) (*Metrics, error) {
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 16)
	m := &Metrics{
		applied: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_events_applied_total",
			Help: "Events whose effects have been committed.",
		}),
		groups: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_groups_applied_total",
			Help: "Transactions that applied events.",
		}),
		Failed:  byProjection("tidemark_projection_failures_total", "Attempts that failed."),
		Retried: byProjection("tidemark_projection_retries_total", "Attempts at events that had failed before."),
		Dead:    byProjection("tidemark_projection_dead_total", "Attempts that failed and left their pair dead."),
		Skipped: byProjection("tidemark_projection_skipped_total", "Events that failed and were skipped, by policy."),
		events: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidemark_group_events", Help: "Events applied in a transaction.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 16), NativeHistogramBucketFactor: nativeFactor,
		}),
		Through: byProjection("tidemark_projection_applied_total", "Events that a projection has gone through, committed."),
		Lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_leases_lost_total",
			Help: "Leases lost with work under way: taken over by another owner, or not renewed in time.",
		}, []string{"reason"}),
		Rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_fence_rejections_total",
			Help: "Transactions refused because a generation was stale.",
		}),
		Wakeups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_wakeups_total",
			Help: "Ends of a sleep: notified by an append or an operator, released by a campaign that was in the way, " +
				"polled by the clock.",
		}, []string{"cause"}),
		Listening: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_listening",
			Help: "Whether notifications arrive.",
		}),
		Gaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_gaps_total", Help: "Campaigns with events but without a work item, by whether they could be repaired.",
		}, []string{"outcome"}),
		Held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_leases_held",
			Help: "Campaigns leased by this worker.",
		}),
		Breaker: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_breaker_state",
			Help: "Whether the worker keeps away from a database that fails: 0 no (closed), 1 trying one campaign " +
				"(half-open), 2 yes (open).",
		}),
		Abandoned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_projections_abandoned_total",
			Help: "Calls of projections that did not return within their timeout, nor when they were told.",
		}, []string{"projection"}),
		Stuck: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_projections_stuck",
			Help: "Abandoned calls that have not returned since: each keeps a goroutine.",
		}),
		Claim: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidemark_claim_duration_seconds",
			Help: "Time of a claim.", Buckets: buckets, NativeHistogramBucketFactor: nativeFactor,
		}),
		Apply: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidemark_apply_duration_seconds", Help: "From the start of a group to its commit, a second try included.",
			Buckets: buckets, NativeHistogramBucketFactor: nativeFactor,
		}),
	}
	m.Inline = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tidemark_inline_events_total",
		Help: "Events applied by the transactions that appended them, if those have committed.",
	})
	m.InlineLeft = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tidemark_inline_left_total",
		Help: "Inline applies that failed and were left to the workers.",
	})
	m.ShadowApplied = byProjection("tidemark_shadow_events_total", "Events that a shadow worker applied and rolled back.")
	m.ShadowFailed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_shadow_failures_total",
		Help: "Events on which a projection failed in a shadow worker, each time it came to them.",
	}, []string{"projection", "class"})
	m.Verified = byProjection("tidemark_verify_campaigns_total", "Campaigns verified in the background.")
	m.Mismatches = byProjection("tidemark_verify_mismatches_total",
		"Rows that were found not to be as the journal says, each time a campaign was verified in the background.")
	for _, reason := range []string{LostTakenOver, LostExpired} {
		m.Lost.WithLabelValues(reason)
	}
	for _, cause := range []Awoken{Elapsed, Notified, Finished} {
		m.Wakeups.WithLabelValues(cause.String())
	}
	for _, outcome := range []string{GapRepaired, GapFailed} {
		m.Gaps.WithLabelValues(outcome)
	}
	for _, k := range projections {
		for _, vec := range []*prometheus.CounterVec{
			m.Through, m.Failed, m.Retried, m.Dead, m.Skipped, m.Abandoned,
			m.ShadowApplied, m.Verified, m.Mismatches,
		} {
			vec.WithLabelValues(k.Name)
		}
		for _, class := range failure.Classes() {
			m.ShadowFailed.WithLabelValues(k.Name, string(class))
		}
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.Verified, m.Mismatches, m.ShadowApplied, m.ShadowFailed, m.Inline,
		m.InlineLeft, m.applied, m.groups, m.events, m.Through, m.Rejected, m.Wakeups, m.Listening, m.Gaps, m.Failed,
		m.Retried, m.Dead, m.Skipped, m.Lost, m.Held, m.Breaker, m.Abandoned, m.Stuck, m.Claim, m.Apply,
	} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

// Group counts a transaction that has applied n events.
func (m *Metrics) Group(n int) {
	m.applied.Add(float64(n))
	m.groups.Inc()
	m.events.Observe(float64(n))
}

func byProjection(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"projection"})
}

// Awoken is what ended a sleep.
type Awoken int

// The ends of a sleep.
const (
	Elapsed  Awoken = iota
	Notified        // by an append
	Finished        // a worker has given back what was in the way
)

func (a Awoken) String() string {
	switch a {
	case Notified:
		return "notified"
	case Finished:
		return "released"
	default:
		return "polled"
	}
}
