package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// tracesShutdown is how long the last spans may take to get out.
const tracesShutdown = 5 * time.Second

// serviceName is what the worker is called in traces, unless OTEL_SERVICE_NAME or
// OTEL_RESOURCE_ATTRIBUTES say otherwise.
const serviceName = "tidemark-worker"

// startTraces returns a provider whose spans go to where OpenTelemetry's own variables say, over
// OTLP by HTTP, and the function that sends the last of them. A collector that does not answer
// costs spans, and a warning, and nothing else.
func startTraces(ctx context.Context, logger *slog.Logger) (*trace.TracerProvider, func(), error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName(serviceName)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.WarnContext(ctx, "traces not sent", "error", err)
	}))
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))
	return provider, func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), tracesShutdown)
		defer cancel()
		if err := provider.Shutdown(bounded); err != nil {
			logger.WarnContext(ctx, "traces not sent", "error", err)
		}
	}, nil
}
