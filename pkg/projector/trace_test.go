package projector_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/telemetry"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// traced returns a journal that appends events with their trace.
func traced() journal.Journal { return journal.Journal{Trace: telemetry.Trace} }

func TestAGroupIsASpanThatLinksToTheTracesThatAppendedItsEvents(t *testing.T) {
	t.Parallel()
	picky := func(*testing.T) projection.Projection {
		return projection.Handlers{
			Name: "picky", Version: 1, Tables: `CREATE TABLE picky (campaign_id text
			PRIMARY KEY)`,
			On: []projection.Handler{
				projection.Handle("moved", func(context.Context, *projection.Group, event.Event, moved) error {
					return projection.Permanent(errPassing)
				}),
			},
		}
	}
	for _, c := range []struct {
		name       string
		projection func(*testing.T) projection.Projection
		event      event.Event
		failed     bool
	}{
		{
			name: "where a program applies them", projection: func(*testing.T) projection.Projection { return counters() },
			event: moves(1)[0],
		},
		{name: "and where the database does", projection: func(t *testing.T) projection.Projection {
			return sums(t, addPayload)
		}, event: added("1")},
		{name: "and says that an event has failed", projection: picky, event: moves(1)[0], failed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pool, spans := pgtest.New(t), tracetest.NewInMemoryExporter()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
			p, err := projector.New(projector.Config{
				Pool: pool, Projections: []projection.Projection{c.projection(t)},
				TracerProvider: provider,
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, appending := provider.Tracer("application").Start(t.Context(), "append")
			err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := traced().Append(ctx, tx, "c", journal.Any, c.event, c.event)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			appending.End()
			drain(t, p)
			linked := false
			for _, s := range spans.GetSpans() {
				if s.Name == "append" {
					continue
				}
				if s.Name != "apply default" || s.SpanKind != trace.SpanKindConsumer || s.Parent.IsValid() ||
					!slices.Contains(s.Attributes, attribute.String("tidemark.consumer_group", "default")) {
					t.Errorf("a span is %s %s, %v, of %v", s.SpanKind, s.Name, s.Attributes, s.Parent)
				}
				for _, l := range s.Links {
					if l.SpanContext.TraceID() != appending.SpanContext().TraceID() ||
						l.SpanContext.SpanID() != appending.SpanContext().SpanID() {
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

func TestAnInlineApplyIsASpanWithinTheOneThatAppends(t *testing.T) {
	t.Parallel()
	refuse := true
	for name, c := range map[string]struct {
		cfg  projector.Config
		by   int
		want codes.Code
	}{
		"applied": {projector.Config{Projections: []projection.Projection{counters()}}, 1, codes.Unset},
		"refused": {projector.Config{Projections: []projection.Projection{squeamish(&refuse)}}, -1, codes.Error},
		"left_to_the_workers": {projector.Config{
			Projections:      []projection.Projection{squeamish(&refuse)},
			InlineBestEffort: true,
		}, -1, codes.Error},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, spans := pgtest.New(t), tracetest.NewInMemoryExporter()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
			c.cfg.TracerProvider = provider
			p := inlineProjector(t, pool, c.cfg)
			ctx, appending := provider.Tracer("application").Start(t.Context(), "append")
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				appended, err := traced().Append(ctx, tx, "c", journal.Any, moveEvents(c.by, c.by)...)
				if err != nil {
					return err
				}
				return p.ApplyInline(ctx, tx, appended...)
			})
			appending.End()
			if refused := err != nil; refused != (name == "refused") {
				t.Fatal(err)
			}
			found := 0
			for _, s := range spans.GetSpans() {
				if s.Name != "apply inline default" {
					continue
				}
				found++
				if s.Parent.SpanID() != appending.SpanContext().SpanID() || s.SpanKind != trace.SpanKindInternal ||
					!slices.Contains(s.Attributes, attribute.String("tidemark.consumer_group", "default")) {
					t.Errorf("it is %s, %v, a child of %v", s.SpanKind, s.Attributes, s.Parent)
				}
				if s.Status.Code != c.want {
					t.Errorf("its status is %+v", s.Status)
				}
				if applied := slices.Contains(s.Attributes, attribute.Int("tidemark.events", 2)); applied != (name == "applied") ||
					len(s.Links) != 1 {
					t.Errorf("it has %v and links to %v", s.Attributes, s.Links)
				}
			}
			if found != 1 {
				t.Errorf("there are %d such spans", found)
			}
		})
	}
}

func TestARebuildIsFollowedRangeByRangeAndToTheExchange(t *testing.T) {
	t.Parallel()
	pool, spans := pgtest.New(t), tracetest.NewInMemoryExporter()
	drain(t, workerOf(t, pool, nil, kindsOf(t, "k", 1)...))
	moveAll(t, pool, 1, 2, 3)
	drain(t, workerOf(t, pool, nil, kindsOf(t, "k", 1)...))
	drain(t, workerOf(t, pool, func(c *projector.Config) {
		c.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	}, kindsOf(t, "k", 2)...))
	events := map[string]int64{}
	for _, s := range spans.GetSpans() {
		what, name, _ := strings.Cut(s.Name, " ")
		if what == "apply" {
			continue
		}
		if s.Parent.IsValid() || s.SpanKind != trace.SpanKindInternal || s.Status.Code != codes.Unset ||
			!slices.Contains(s.Attributes, attribute.String("tidemark.consumer_group", "default")) ||
			!slices.Contains(s.Attributes, attribute.String("tidemark.projection", name)) ||
			!slices.Contains(s.Attributes, attribute.Int("tidemark.projection_version", 2)) {
			t.Errorf("a span is %s %s, %v, %+v", s.SpanKind, s.Name, s.Attributes, s.Status)
		}
		for _, a := range s.Attributes {
			if a.Key == "tidemark.events" {
				events[s.Name] += a.Value.AsInt64()
			}
		}
	}
	for _, name := range []string{"document_k", "handlers_k", "file_k"} {
		if n, there := events["swap "+name]; events["copy "+name] != 80 || !there || n != 0 {
			t.Errorf("of %s there are %v", name, events)
		}
	}
}
