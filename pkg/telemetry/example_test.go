package telemetry_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/telemetry"
)

func ExampleTrace() {
	orders := journal.Journal{Trace: telemetry.Trace}
	place := func(ctx context.Context, tx pgx.Tx) error {
		_, err := orders.Append(ctx, tx, "order-1", journal.Any, event.Event{Type: "order_placed"})
		return err
	}
	_ = place // place runs in the application's transaction, in the span of its request

	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	fmt.Println(telemetry.Trace(trace.ContextWithSpanContext(context.Background(), span)))
	// Output:
	// 00-01000000000000000000000000000000-0200000000000000-00
}

func ExampleNewTracer() {
	cfg, err := pgxpool.ParseConfig("postgres://localhost/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	if cfg.ConnConfig.Tracer, err = telemetry.NewTracer(prometheus.NewRegistry()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.ConnConfig.Tracer != nil) // pgxpool.NewWithConfig(ctx, cfg) makes the pool
	// Output:
	// true
}
