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

const tracesShutdown = 5 * time.Second

// serviceName is the worker's name in traces unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES
// set another.
const serviceName = "tidemark-worker"

// startTraces returns a provider that sends spans by OTLP over HTTP, to the endpoint in
// OpenTelemetry's own variables, and a function that sends the last spans. If the collector does not
// answer, spans are lost and a warning is logged; nothing else fails.
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
