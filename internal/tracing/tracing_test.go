package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/tracing"
)

type event struct{ metadata []byte }

func metadata(e *event) []byte { return e.metadata }

func parent(n int) []byte {
	return fmt.Appendf(nil, `{"traceparent": "00-%032x-%016x-01", "tracestate": "vendor=%d"}`, n, n, n)
}

func recorded(t *testing.T, events []event, err error) tracetest.SpanStub {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	ctx, around := provider.Tracer("test").Start(t.Context(), "around")
	defer around.End()
	tracer := tracing.New(provider, "apply default", trace.SpanKindConsumer)
	inner, span := tracer.Start(ctx)
	if tracer.Of(inner) != span || tracer.Of(ctx) != nil {
		t.Error("the span is not where it was put")
	}
	tracing.Link(span, events, metadata)
	span.End(len(events), err)
	if n := len(spans.GetSpans()); n != 1 {
		t.Fatalf("%d spans were made, want 1", n)
	}
	return spans.GetSpans()[0]
}

func TestASpanIsARootThatLinksToEachTraceOnce(t *testing.T) {
	t.Parallel()
	s := recorded(t, []event{{parent(1)}, {nil}, {parent(2)}, {parent(1)}, {[]byte(`{"a": 1}`)}}, nil)
	if s.Parent.IsValid() || s.Name != "apply default" || s.SpanKind != trace.SpanKindConsumer ||
		s.Status.Code != codes.Unset {
		t.Errorf("the span is %+v", s)
	}
	if len(s.Links) != 2 {
		t.Fatalf("it has %d links, want 2", len(s.Links))
	}
	for i, l := range s.Links {
		if want := fmt.Sprintf("%032x", i+1); l.SpanContext.TraceID().String() != want ||
			l.SpanContext.TraceState().Get("vendor") != fmt.Sprint(i+1) || !l.SpanContext.IsRemote() {
			t.Errorf("link %d is %+v", i, l.SpanContext)
		}
	}
}

func TestASpanWithinARequestIsItsChild(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	ctx, around := provider.Tracer("test").Start(t.Context(), "around")
	tracer := tracing.New(provider, "apply inline default", trace.SpanKindInternal)
	_, span := tracer.StartWithin(ctx)
	span.End(3, nil)
	_, root := tracer.Start(ctx)
	root.End(1, nil)
	got := spans.GetSpans()
	if len(got) != 2 || got[0].Parent.SpanID() != around.SpanContext().SpanID() ||
		got[0].SpanKind != trace.SpanKindInternal || got[1].Parent.IsValid() {
		t.Errorf("the spans are %+v", got)
	}
	if inner, none := (*tracing.Tracer)(nil).StartWithin(ctx); inner != ctx || none != nil {
		t.Error("no tracer starts a span")
	}
}

func TestASpanHasNoMoreLinksThanIsUsual(t *testing.T) {
	t.Parallel()
	var events []event
	for i := range 3 * tracing.MaxLinks {
		events = append(events, event{parent(i + 1)})
	}
	if s := recorded(t, events, nil); len(s.Links) != tracing.MaxLinks || s.DroppedLinks != 0 {
		t.Errorf("it has %d links, and %d were dropped, want %d and none", len(s.Links), s.DroppedLinks, tracing.MaxLinks)
	}
}

func TestMetadataThatCarriesNoTraceContextIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, m := range []string{
		"", "{}", "null", `["traceparent"]`, `{"traceparent": 7}`, `{"traceparent": ""}`, `{"traceparent": "00-0-0-01"}`,
		`{"a": {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`,
		`{"traceparent": "00-00000000000000000000000000000000-b7ad6b7169203331-01"}`,
		`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n"}`, `{"traceparent"`,
	} {
		if s := recorded(t, []event{{[]byte(m)}}, nil); len(s.Links) != 0 {
			t.Errorf("%s is taken for %v", m, s.Links)
		}
	}
	if s := recorded(t,
		[]event{{[]byte(`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "=,="}`)}},
		nil); len(s.Links) != 1 {
		t.Error("a state that is none costs the link")
	}
}

func TestASpanSaysWhatWentWrong(t *testing.T) {
	t.Parallel()
	if s := recorded(t, nil, errors.New("no way")); s.Status.Code != codes.Error || s.Status.Description != "no way" {
		t.Errorf("the status is %+v", s.Status)
	}
}

// Measures the steps of a group without a tracer. AllocsPerRun counts the whole process, so no test
// may run in parallel.
func TestWithoutAProviderNothingIsMade(t *testing.T) { //nolint:paralleltest // measures allocations
	ctx, events, none := context.Background(), []event{{parent(1)}}, errors.New("x")
	tracer := tracing.New(nil, "apply default", trace.SpanKindConsumer)
	if n := testing.AllocsPerRun(100, func() {
		inner, span := tracer.Start(ctx)
		tracing.Link(span, events, metadata)
		tracer.Of(inner).Fail("x")
		span.End(1, none)
	}); n != 0 || tracer != nil {
		t.Errorf("%v allocations, tracer %v", n, tracer)
	}
}
