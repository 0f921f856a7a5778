package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/propagation"

	"github.com/tidemark-go/tidemark/pkg/event"
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

// WithTrace returns copies of the events with the trace context of ctx's span in their metadata,
// under traceparent and tracestate (https://www.w3.org/TR/trace-context/), so that workers link to
// the appending trace. Events that already have a context keep it. Without a span it returns the
// events unchanged.
func WithTrace(ctx context.Context, events ...event.Event) []event.Event {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if len(carrier) == 0 {
		return events
	}
	traced := slices.Clone(events)
	for i := range traced {
		if e := &traced[i]; !bytes.Contains(e.Metadata, []byte(`"traceparent"`)) {
			e.Metadata = withFields(e.Metadata, carrier)
		}
	}
	return traced
}

// withFields adds text fields to a JSON object. Anything else is unchanged, for [Append] to refuse.
func withFields(metadata json.RawMessage, fields map[string]string) json.RawMessage {
	object := map[string]json.RawMessage{}
	if len(metadata) > 0 && (json.Unmarshal(metadata, &object) != nil || object == nil) {
		return metadata
	}
	for name, value := range fields {
		object[name], _ = json.Marshal(value) // a string never fails
	}
	all, err := json.Marshal(object)
	if err != nil {
		return metadata
	}
	return all
}
