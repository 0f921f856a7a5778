package publisher_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/telemetry"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestABatchIsASpanThatLinksToTheTracesThatAppendedItsEvents(t *testing.T) {
	t.Parallel()
	pool, spans := pgtest.New(t), tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	var calls atomic.Int32
	sink := &memory.Sink{OnPublish: func(ctx context.Context, _ []publisher.Event) error {
		if !trace.SpanContextFromContext(ctx).IsValid() {
			t.Error("the sink is not told of the span")
		}
		if calls.Add(1) == 1 {
			return errors.New("not now")
		}
		return nil
	}}
	ctx, appending := provider.Tracer("application").Start(t.Context(), "append")
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{Trace: telemetry.Trace}.Append(ctx, tx, "c", journal.Any,
			event.Event{Type: "noted"}, event.Event{Type: "noted"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := start(t, quick(pool, sink, func(c *publisher.Config, _ *publisher.Publisher) { c.TracerProvider = provider }))
	eventually(t, "the events have arrived", func() bool { return hasAll(sink.Received(), committed(t, pool)) })
	stop()
	made := spans.GetSpans()
	if len(made) != int(calls.Load()) || len(made) < 2 {
		t.Fatalf("%d batches made %d spans", calls.Load(), len(made))
	}
	for i, s := range made {
		if s.Name != "publish all/out" || s.SpanKind != trace.SpanKindProducer || s.Parent.IsValid() ||
			!slices.Contains(s.Attributes, attribute.String("tidemark.topic", "all")) ||
			!slices.Contains(s.Attributes, attribute.String("tidemark.publisher", "out")) {
			t.Errorf("span %d is %s %s, %v, of %v", i, s.SpanKind, s.Name, s.Attributes, s.Parent)
		}
		if len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != appending.SpanContext().SpanID() ||
			s.Links[0].SpanContext.TraceID() != appending.SpanContext().TraceID() {
			t.Errorf("span %d has the links %v", i, s.Links)
		}
	}
	if first := made[0].Status; first.Code != codes.Error || first.Description != "not now" {
		t.Errorf("the first batch ended as %+v", first)
	}
	if !slices.ContainsFunc(made, func(s tracetest.SpanStub) bool { return s.Status.Code == codes.Unset }) {
		t.Error("no batch got through")
	}
}
