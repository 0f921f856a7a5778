package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
)

// Trace returns the trace context of ctx's span, as W3C writes it (https://www.w3.org/TR/trace-context/);
// "": there is no span. It is for the Trace of a journal.Journal.
func Trace(ctx context.Context) (traceparent, tracestate string) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"], carrier["tracestate"]
}
