package registry

import (
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
)

// Metrics are counted where things happen.
type Metrics struct {
	Groups      GroupMetrics
	Projections ProjectionMetrics
	Leases      LeaseMetrics
	Worker      WorkerMetrics
	Inline      InlineMetrics
	Shadow      ShadowMetrics
	Verify      VerifyMetrics
}

// GroupMetrics are about transactions that apply events.
type GroupMetrics struct {
	applied  prometheus.Counter   // events
	groups   prometheus.Counter   //
	events   prometheus.Histogram // in a group
	Duration prometheus.Histogram
}

// ProjectionMetrics are about what projections do with their events.
type ProjectionMetrics struct {
	Through   *prometheus.CounterVec
	Failed    *prometheus.CounterVec
	Retried   *prometheus.CounterVec
	Dead      *prometheus.CounterVec
	Skipped   *prometheus.CounterVec
	Abandoned *prometheus.CounterVec
	Stuck     prometheus.Gauge
}

// LeaseMetrics are about the campaigns that this worker has leased.
type LeaseMetrics struct {
	Count    prometheus.Gauge
	Lost     *prometheus.CounterVec
	Rejected prometheus.Counter
}

// WorkerMetrics are about how the worker finds work, and keeps away from a database that fails.
type WorkerMetrics struct {
	Claim     prometheus.Histogram
	Wakeups   *prometheus.CounterVec
	Listening prometheus.Gauge
	Breaker   prometheus.Gauge
	Gaps      *prometheus.CounterVec
}

// InlineMetrics are about applies in the transactions that append.
type InlineMetrics struct {
	Applied prometheus.Counter
	Left    prometheus.Counter
}

// ShadowMetrics are about what a shadow worker applies and rolls back.
type ShadowMetrics struct {
	Applied *prometheus.CounterVec
	Failed  *prometheus.CounterVec
}

// VerifyMetrics are about verification in the background.
type VerifyMetrics struct {
	Campaigns  *prometheus.CounterVec
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
	m := &Metrics{
		Groups: newGroupMetrics(), Projections: newProjectionMetrics(), Leases: newLeaseMetrics(),
		Worker: newWorkerMetrics(), Inline: newInlineMetrics(), Shadow: newShadowMetrics(), Verify: newVerifyMetrics(),
	}
	for _, k := range projections {
		for _, vec := range slices.Concat(m.Projections.vecs(), m.Verify.vecs(), []*prometheus.CounterVec{m.Shadow.Applied}) {
			vec.WithLabelValues(k.Name)
		}
		for _, class := range failure.Classes() {
			m.Shadow.Failed.WithLabelValues(k.Name, string(class))
		}
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.Groups.applied, m.Groups.groups, m.Groups.events, m.Groups.Duration,
		m.Projections.Through, m.Projections.Failed, m.Projections.Retried, m.Projections.Dead, m.Projections.Skipped,
		m.Projections.Abandoned, m.Projections.Stuck,
		m.Leases.Count, m.Leases.Lost, m.Leases.Rejected,
		m.Worker.Claim, m.Worker.Wakeups, m.Worker.Listening, m.Worker.Breaker, m.Worker.Gaps,
		m.Inline.Applied, m.Inline.Left, m.Shadow.Applied, m.Shadow.Failed, m.Verify.Campaigns, m.Verify.Mismatches,
	} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

func newGroupMetrics() GroupMetrics {
	return GroupMetrics{
		applied: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_events_applied_total",
			Help: "Events whose effects have been committed.",
		}),
		groups: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_groups_applied_total",
			Help: "Transactions that applied events.",
		}),
		events: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidemark_group_events", Help: "Events applied in a transaction.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 16), NativeHistogramBucketFactor: nativeFactor,
		}),
		Duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidemark_apply_duration_seconds", Help: "From the start of a group to its commit, a second try included.",
			Buckets: durations(), NativeHistogramBucketFactor: nativeFactor,
		}),
	}
}

// Count counts a transaction that has applied n events.
func (m *GroupMetrics) Count(n int) {
	m.applied.Add(float64(n))
	m.groups.Inc()
	m.events.Observe(float64(n))
}

func newProjectionMetrics() ProjectionMetrics {
	return ProjectionMetrics{
		Through: byProjection("tidemark_projection_applied_total", "Events that a projection has gone through, committed."),
		Failed:  byProjection("tidemark_projection_failures_total", "Attempts that failed."),
		Retried: byProjection("tidemark_projection_retries_total", "Attempts at events that had failed before."),
		Dead:    byProjection("tidemark_projection_dead_total", "Attempts that failed and left the campaign dead."),
		Skipped: byProjection("tidemark_projection_skipped_total", "Events that failed and were skipped, by policy."),
		Abandoned: byProjection("tidemark_projections_abandoned_total",
			"Calls of projections that did not return within their timeout, nor when they were told."),
		Stuck: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_projections_stuck",
			Help: "Abandoned calls that have not returned since: each keeps a goroutine.",
		}),
	}
}

func (m *ProjectionMetrics) vecs() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{m.Through, m.Failed, m.Retried, m.Dead, m.Skipped, m.Abandoned}
}

func newLeaseMetrics() LeaseMetrics {
	m := LeaseMetrics{
		Count: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_leases_held",
			Help: "Campaigns leased by this worker.",
		}),
		Lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_leases_lost_total",
			Help: "Leases lost with work under way: taken over by another owner, or not renewed in time.",
		}, []string{"reason"}),
		Rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_fence_rejections_total",
			Help: "Transactions refused because a generation was stale.",
		}),
	}
	for _, reason := range []string{LostTakenOver, LostExpired} {
		m.Lost.WithLabelValues(reason)
	}
	return m
}

func newWorkerMetrics() WorkerMetrics {
	m := WorkerMetrics{
		Claim: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidemark_claim_duration_seconds",
			Help: "Time of a claim.", Buckets: durations(), NativeHistogramBucketFactor: nativeFactor,
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
		Breaker: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_breaker_state",
			Help: "Whether the worker keeps away from a database that fails: 0 no (closed), 1 trying one campaign " +
				"(half-open), 2 yes (open).",
		}),
		Gaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_gaps_total",
			Help: "Campaigns with events but without a work item, by whether they could be repaired.",
		}, []string{"outcome"}),
	}
	for _, cause := range []Awoken{Elapsed, Notified, Finished} {
		m.Wakeups.WithLabelValues(cause.String())
	}
	for _, outcome := range []string{GapRepaired, GapFailed} {
		m.Gaps.WithLabelValues(outcome)
	}
	return m
}

func newInlineMetrics() InlineMetrics {
	return InlineMetrics{
		Applied: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_inline_events_total",
			Help: "Events applied by the transactions that appended them, if those have committed.",
		}),
		Left: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_inline_left_total",
			Help: "Inline applies that failed and were left to the workers.",
		}),
	}
}

func newShadowMetrics() ShadowMetrics {
	return ShadowMetrics{
		Applied: byProjection("tidemark_shadow_events_total", "Events that a shadow worker applied and rolled back."),
		Failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_shadow_failures_total",
			Help: "Events on which a projection failed in a shadow worker, each time it came to them.",
		}, []string{"projection", "class"}),
	}
}

func newVerifyMetrics() VerifyMetrics {
	return VerifyMetrics{
		Campaigns: byProjection("tidemark_verify_campaigns_total", "Campaigns verified in the background."),
		Mismatches: byProjection("tidemark_verify_mismatches_total",
			"Rows that were found not to be as the journal says, each time a campaign was verified in the background."),
	}
}

func (m *VerifyMetrics) vecs() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{m.Campaigns, m.Mismatches}
}

func durations() []float64 { return prometheus.ExponentialBuckets(0.0005, 2, 16) }

func byProjection(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"projection"})
}
