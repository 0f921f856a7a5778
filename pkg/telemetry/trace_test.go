package journal_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

func TestEventsTakeTheTraceOfTheirContextAlong(t *testing.T) {
	t.Parallel()
	state, err := trace.ParseTraceState("vendor=1")
	if err != nil {
		t.Fatal(err)
	}
	ctx := trace.ContextWithSpanContext(t.Context(),
		trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
			TraceFlags: trace.FlagsSampled, TraceState: state,
		}))
	const parent = `"traceparent":"00-01000000000000000000000000000000-0200000000000000-01"`
	for _, c := range []struct {
		name, metadata, want string
		ctx                  context.Context
	}{
		{"where there is no metadata", ``, `{` + parent + `,"tracestate":"vendor=1"}`, ctx},
		{"beside what metadata says", `{"z": [1,  2], "a": "b"}`, `{"a":"b",` +
			parent + `,"tracestate":"vendor=1","z":[1,2]}`, ctx},
		{
			"but keep the one they have", `{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`,
			`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`, ctx,
		},
		{"unless metadata is no object", `[1]`, `[1]`, ctx},
		{"or null", `null`, `null`, ctx},
		{"or the context has none", `{"a": 1}`, `{"a": 1}`, t.Context()},
	} {
		given := []event.Event{{Metadata: []byte(c.metadata)}}
		got := journal.WithTrace(c.ctx, given...)
		if s := string(got[0].Metadata); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
		if string(given[0].Metadata) != c.metadata {
			t.Errorf("%s: the event that was given is now %s", c.name, given[0].Metadata)
		}
	}
}

func ExampleWithTrace() {
	place := func(ctx context.Context, tx pgx.Tx) error {
		_, err := journal.Append(ctx, tx, "order-1", journal.Any,
			journal.WithTrace(ctx, event.Event{Type: "order_placed"})...)
		return err
	}
	_ = place // place runs in the application's transaction, in the span of its request
}
