package projector_test

import (
	"context"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/pgtest"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

func TestAGroupIsASpanThatLinksToTheTracesThatAppendedItsEvents(t *testing.T) {
	t.Parallel()
	picky := func(*testing.T) projector.Projection {
		h := projector.NewHandlers(projector.Spec{Name: "picky", Version: 1, Tables: `CREATE TABLE picky (campaign_id text PRIMARY KEY)`})
		projector.On(h, "moved", func(context.Context, *projector.Group, journal.Event, moved) error {
			return projector.Permanent(errPassing)
		})
		return h
	}
	for _, c := range []struct {
		name       string
		projection func(*testing.T) projector.Projection
		event      journal.Event
		failed     bool
	}{
		{name: "where a program applies them", projection: func(*testing.T) projector.Projection { return counters() }, event: moves(1)[0]},
		{name: "and where the database does", projection: func(t *testing.T) projector.Projection { return sums(t, addPayload) }, event: added("1")},
		{name: "and says that an event has failed", projection: picky, event: moves(1)[0], failed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pool, spans := pgtest.New(t), tracetest.NewInMemoryExporter()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
			p, err := projector.New(projector.Config{Pool: pool, Projections: []projector.Projection{c.projection(t)}, TracerProvider: provider})
			if err != nil {
				t.Fatal(err)
			}
			ctx, appending := provider.Tracer("application").Start(t.Context(), "append")
			appendEvents(t, pool, "c", journal.WithTrace(ctx, c.event, c.event)...)
			appending.End()
			drain(t, p)
			linked := false
			for _, s := range spans.GetSpans() {
				if s.Name == "append" {
					continue
				}
				if s.Name != "apply default" || s.SpanKind != trace.SpanKindConsumer || s.Parent.IsValid() || !slices.Contains(s.Attributes, attribute.String("tidemark.consumer_group", "default")) {
					t.Errorf("a span is %s %s, %v, of %v", s.SpanKind, s.Name, s.Attributes, s.Parent)
				}
				for _, l := range s.Links {
					if l.SpanContext.TraceID() != appending.SpanContext().TraceID() || l.SpanContext.SpanID() != appending.SpanContext().SpanID() {
						t.Errorf("a link leads to %v", l.SpanContext)
					}
					linked = true
					if failed := s.Status.Code == codes.Error; failed != c.failed {
						t.Errorf("the status is %+v", s.Status)
					}
				}
			}
			if !linked {
				t.Error("no link leads to the append")
			}
		})
	}
}
