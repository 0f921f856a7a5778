package telemetry

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

type tracer struct{ duration *prometheus.HistogramVec }

// NewTracer returns a connection tracer that measures appends: tidemark_append_duration_seconds, by
// outcome, "ok" or "error". It times the statement, not the COMMIT, and does not see appends queued
// on a caller's [pgx.Batch]. Registering its metric twice is an error. It is safe for concurrent use.
func NewTracer(reg prometheus.Registerer) (pgx.QueryTracer, error) {
	t := &tracer{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tidemark_append_duration_seconds", Help: "Time of an append's statement, not of the COMMIT.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 17), NativeHistogramBucketFactor: 1.1,
	}, []string{"outcome"})}
	if err := reg.Register(t.duration); err != nil {
		return nil, fmt.Errorf("measure appends: %w", err)
	}
	for _, outcome := range []string{"ok", "error"} {
		t.duration.WithLabelValues(outcome)
	}
	return t, nil
}

// appending is the context key of an append's start.
type appending struct{}

func (t *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(data.SQL, "tidemark.append") {
		return ctx
	}
	return context.WithValue(ctx, appending{}, time.Now())
}

func (t *tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	start, ok := ctx.Value(appending{}).(time.Time)
	if !ok {
		return
	}
	outcome := "ok"
	if data.Err != nil {
		outcome = "error"
	}
	t.duration.WithLabelValues(outcome).Observe(time.Since(start).Seconds())
}
