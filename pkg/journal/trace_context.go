package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"go.opentelemetry.io/otel/propagation"
)

// WithTrace returns the events with the trace context of ctx's span in their metadata, under
// traceparent and tracestate (https://www.w3.org/TR/trace-context/), for [Append]. A worker that applies
// and publishes them can then link to the trace that appended them. Events that carry a context
// already keep it; where ctx has no span, and where metadata is no object, nothing changes. The
// events that were given are not touched.
func WithTrace(ctx context.Context, events ...Event) []Event {
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

// withFields adds fields of text to an object; what is none stays as it is, for [Append] to refuse.
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
