package journal

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// Tracer measures appends: tidemark_append_duration_seconds, by outcome, "ok" or "error". It is a
// [pgx.QueryTracer], to be set as the Tracer of the connections that append; statements that are no
// appends cost a comparison. The time is that of the statement: the COMMIT is the application's.
// Appends that are queued on a [pgx.Batch] of one's own are not seen. It is safe for concurrent
// use.
type Tracer struct{ duration *prometheus.HistogramVec }

var _ pgx.QueryTracer = (*Tracer)(nil)

// NewTracer returns a tracer whose metric is registered. It returns an error if there is one already.
func NewTracer(reg prometheus.Registerer) (*Tracer, error) {
	t := &Tracer{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tidemark_append_duration_seconds", Help: "Time of an append's statement, not of the COMMIT.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 17), NativeHistogramBucketFactor: 1.1,
	}, []string{"outcome"})}
	if err := reg.Register(t.duration); err != nil {
		return nil, fmt.Errorf("measure appends: %w", err)
	}
	for _, outcome := range []string{outcomeOK, outcomeError} {
		t.duration.WithLabelValues(outcome)
	}
	return t, nil
}

const (
	outcomeOK    = "ok"
	outcomeError = "error"
)

// appending is since when an append is under way.
type appending struct{}

// TraceQueryStart notes when an append begins.
func (t *Tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(data.SQL, "tidemark.append") {
		return ctx
	}
	return context.WithValue(ctx, appending{}, time.Now())
}

// TraceQueryEnd measures an append that ends.
func (t *Tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	start, ok := ctx.Value(appending{}).(time.Time)
	if !ok {
		return
	}
	outcome := outcomeOK
	if data.Err != nil {
		outcome = outcomeError
	}
	t.duration.WithLabelValues(outcome).Observe(time.Since(start).Seconds())
}
