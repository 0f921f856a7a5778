package telemetry_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/telemetry"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// within returns a context with a span of a trace.
func within(t *testing.T, n byte, state string) context.Context {
	t.Helper()
	parsed, err := trace.ParseTraceState(state)
	if err != nil {
		t.Fatal(err)
	}
	return trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{n}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: parsed,
	}))
}

func TestEventsTakeTheTraceOfTheirContextAlong(t *testing.T) {
	t.Parallel()
	traced := journal.Journal{Trace: telemetry.Trace}
	const parent = `"traceparent":"00-01000000000000000000000000000000-0200000000000000-01"`
	for name, c := range map[string]struct {
		metadata, want string
		ctx            context.Context
	}{
		"where there is no metadata": {
			``, `"metadata":{` + parent + `,"tracestate":"vendor=1"}`, within(t, 1, "vendor=1"),
		},
		"without a state": {``, `"metadata":{` + parent + `}`, within(t, 1, "")},
		"beside what metadata says": {
			`{"z": [1,  2], "a": "b"}`, `{"a":"b",` + parent + `,"tracestate":"vendor=1","z":[1,2]}`,
			within(t, 1, "vendor=1"),
		},
		"but keep the one they have": {
			`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`,
			`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`, within(t, 1, "vendor=1"),
		},
		"unless the context has none": {`{"a": 1}`, `"metadata":{"a": 1}`, t.Context()},
	} {
		given := []event.Event{{Type: "noted", Metadata: []byte(c.metadata)}, {Type: "noted"}}
		doc, err := traced.Encode(c.ctx, nil, "c", given)
		if err != nil || !strings.Contains(doc, c.want) {
			t.Errorf("%s: %s, %v; want %s", name, doc, err, c.want)
		}
		if string(given[0].Metadata) != c.metadata {
			t.Errorf("%s: the event that was given is now %s", name, given[0].Metadata)
		}
	}
	var refused *journal.InvalidEventError
	for _, metadata := range []string{`[1]`, `null`} {
		_, err := traced.Encode(within(t, 1, ""), nil, "c", []event.Event{{Type: "noted", Metadata: []byte(metadata)}})
		if !errors.As(err, &refused) || refused.Field != "metadata" {
			t.Errorf("metadata %s: %v", metadata, err)
		}
	}
}

// TestARepeatMayHaveAnotherTrace repeats appends in the request of another trace, and without one.
func TestARepeatMayHaveAnotherTrace(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	traced, e := journal.Journal{Trace: telemetry.Trace}, event.Event{ID: uuid.New(), Type: "noted"}
	other := event.Event{ID: e.ID, Type: "noted", Metadata: []byte(`{"by": "ann"}`)}
	due := time.Now().Add(time.Hour)
	for i, c := range []struct {
		ctx   context.Context
		event event.Event
		want  error
	}{
		{within(t, 1, "vendor=1"), e, nil},
		{within(t, 2, ""), e, nil},
		{t.Context(), e, nil},
		{within(t, 1, "vendor=1"), other, journal.ErrEventIDReused},
	} {
		for what, add := range map[string]func(tx pgx.Tx) (repeated bool, err error){
			"append": func(tx pgx.Tx) (bool, error) {
				places, err := traced.Append(c.ctx, tx, "now", journal.Any, c.event)
				return err == nil && places[0].Duplicate, err
			},
			"scheduled append": func(tx pgx.Tx) (bool, error) {
				s, err := traced.AppendAt(c.ctx, tx, "later", due, c.event)
				return s.Duplicate, err
			},
		} {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				repeated, err := add(tx)
				if err == nil && repeated != (i > 0) {
					t.Errorf("%s %d is a repeat: %v", what, i, repeated)
				}
				return err
			})
			if !errors.Is(err, c.want) {
				t.Errorf("%s %d: %v, want %v", what, i, err, c.want)
			}
		}
	}
	stored, err := journal.Get(t.Context(), pool, "now", 1)
	if err != nil || !strings.Contains(string(stored.Metadata), "00-01000000000000000000000000000000-") {
		t.Errorf("the journal has %s, %v", stored.Metadata, err)
	}
}
