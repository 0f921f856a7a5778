// Package tracing creates OpenTelemetry spans for work on batches of events. The events of a batch
// may come from different traces, so its span is a root that links to the traces in the events'
// metadata. Work in the transaction of an append gets a child of the append's span. Without a
// provider, no spans are created and each call costs a nil check.
package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/redact"
)

// MaxLinks is the maximum number of traces that a span links to, the default limit of
// OpenTelemetry's SDKs. Further traces are left out.
const MaxLinks = 128

const scope = "github.com/tidemark-go/tidemark"

// Tracer starts spans of one kind. A nil Tracer starts none. It is safe for concurrent use.
type Tracer struct {
	tracer  trace.Tracer
	name    string
	options []trace.SpanStartOption
}

// New returns a tracer for spans with a name, a kind and attributes, or nil if there is no provider.
func New(provider trace.TracerProvider, name string, kind trace.SpanKind, attributes ...attribute.KeyValue) *Tracer {
	if provider == nil {
		return nil
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(attributes...)}
	return &Tracer{tracer: provider.Tracer(scope), name: name, options: options}
}

// Span is a span that a tracer started. Methods of a nil Span do nothing. It is for one goroutine.
type Span struct {
	span   trace.Span
	linked map[origin]struct{}
}

type origin struct {
	trace trace.TraceID
	span  trace.SpanID
}

type inContext struct{}

// Start starts a root span and returns a context that carries it.
func (t *Tracer) Start(ctx context.Context) (context.Context, *Span) { return t.begin(ctx, true) }

// StartWithin starts a child of the span in ctx and returns a context that carries it.
func (t *Tracer) StartWithin(ctx context.Context) (context.Context, *Span) {
	return t.begin(ctx, false)
}

func (t *Tracer) begin(ctx context.Context, root bool) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	options := slices.Clip(t.options)
	if root {
		options = append(options, trace.WithNewRoot())
	}
	ctx, span := t.tracer.Start(ctx, t.name, options...)
	s := &Span{span: span, linked: map[origin]struct{}{}}
	return context.WithValue(ctx, inContext{}, s), s
}

// Of returns the span in ctx. It returns nil for a nil Tracer.
func (t *Tracer) Of(ctx context.Context) *Span {
	if t == nil {
		return nil
	}
	s, _ := ctx.Value(inContext{}).(*Span)
	return s
}

// Link links the span to the traces in the events' metadata, each once, up to [MaxLinks].
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

// Fail sets the span's status to error. The reason must contain no payload.
func (s *Span) Fail(reason string) {
	if s != nil {
		s.span.SetStatus(codes.Error, reason)
	}
}

// End ends the span. It records the number of events done and the error, if any.
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

// Context returns the trace context in metadata, or an invalid one if there is none.
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

// Metadata keys of a trace context, see https://www.w3.org/TR/trace-context/.
const (
	parentKey = "traceparent"
	stateKey  = "tracestate"
)

// Stored returns traceparent and tracestate from metadata. A value that does not fit into a header is
// returned as "".
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
