// Package tracing makes OpenTelemetry spans of what is done with many events at once. A group of
// events has no parent, for each of its events may come from another trace: the span is a root, and
// links to the traces whose context the events carry in their metadata. What is applied in the
// transaction that appends is a child of the span that appends. It makes nothing, and costs a look
// at a nil pointer, where there is no provider.
package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/redact"
)

// MaxLinks is how many traces a span links to, as many as OpenTelemetry's SDKs keep by default.
// Those of further events are left out.
const MaxLinks = 128

// scope names the instrumentation.
const scope = "github.com/tidemark-go/tidemark"

// Tracer starts spans of one kind. A nil Tracer starts none. It is safe for concurrent use.
type Tracer struct {
	tracer trace.Tracer
	name   string
	start  []trace.SpanStartOption // of a root
	within []trace.SpanStartOption // of a child
}

// New returns a tracer of spans with a name, a kind and attributes; nil if there is no provider.
func New(provider trace.TracerProvider, name string, kind trace.SpanKind, attributes ...attribute.KeyValue) *Tracer {
	if provider == nil {
		return nil
	}
	within := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(attributes...)}
	return &Tracer{
		tracer: provider.Tracer(scope), name: name, start: append(within[:2:2], trace.WithNewRoot()),
		within: within,
	}
}

// Span is what a tracer has started. A nil Span is none. It is for one goroutine.
type Span struct {
	span   trace.Span
	linked map[origin]struct{}
}

type origin struct {
	trace trace.TraceID
	span  trace.SpanID
}

// inContext is the key of the span in a context.
type inContext struct{}

// Start starts a span that is a root, and returns a context that carries it.
func (t *Tracer) Start(ctx context.Context) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	return t.begin(ctx, t.start)
}

// StartWithin starts a span that is a child of the one in ctx: for what is done in the course of a request.
func (t *Tracer) StartWithin(ctx context.Context) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	return t.begin(ctx, t.within)
}

func (t *Tracer) begin(ctx context.Context, options []trace.SpanStartOption) (context.Context, *Span) {
	ctx, span := t.tracer.Start(ctx, t.name, options...)
	s := &Span{span: span, linked: map[origin]struct{}{}}
	return context.WithValue(ctx, inContext{}, s), s
}

// Of answers the span that ctx carries, if this tracer has started any.
func (t *Tracer) Of(ctx context.Context) *Span {
	if t == nil {
		return nil
	}
	s, _ := ctx.Value(inContext{}).(*Span)
	return s
}

// Link links the span to the traces that events carry in their metadata, each once, and no more than [MaxLinks].
func Link[E any](s *Span, events []E, metadata func(*E) []byte) {
	if s == nil || !s.span.IsRecording() {
		return
	}
	for i := range events {
		if len(s.linked) >= MaxLinks {
			return
		}
		from := Context(metadata(&events[i]))
		if !from.IsValid() {
			continue
		}
		at := origin{from.TraceID(), from.SpanID()}
		if _, ok := s.linked[at]; !ok {
			s.linked[at] = struct{}{}
			s.span.AddLink(trace.Link{SpanContext: from})
		}
	}
}

// Fail marks the span as one of something that has gone wrong. The reason is no payload.
func (s *Span) Fail(reason string) {
	if s != nil {
		s.span.SetStatus(codes.Error, reason)
	}
}

// End ends the span with how many events were done, and why not all were.
func (s *Span) End(events int, err error) {
	if s == nil {
		return
	}
	s.span.SetAttributes(attribute.Int("tidemark.events", events))
	if err != nil {
		s.span.SetStatus(codes.Error, redact.Error(err))
	}
	s.span.End()
}

// Context answers the trace context that metadata carries; an invalid one if it carries none.
func Context(metadata []byte) trace.SpanContext {
	parent, state := Stored(metadata)
	if parent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{parentKey: parent}
	if state != "" {
		carrier[stateKey] = state
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// The keys of metadata that carry a trace context, see https://www.w3.org/TR/trace-context/.
const (
	parentKey = "traceparent"
	stateKey  = "tracestate"
)

// Stored answers what metadata says under traceparent and tracestate, unless a header could not carry it.
func Stored(metadata []byte) (traceparent, tracestate string) {
	if !bytes.Contains(metadata, []byte(`"`+parentKey+`"`)) {
		return "", ""
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(metadata, &fields) != nil {
		return "", ""
	}
	text := func(name string, limit int) (s string) {
		if json.Unmarshal(fields[name], &s) != nil || len(s) > limit ||
			strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
			return ""
		}
		return s
	}
	return text(parentKey, 128), text(stateKey, 512)
}
