package app

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/telemetry"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// OpenTelemetry reads its settings from environment variables, so this test cannot run in parallel.
func TestAWorkerSendsItsTracesWhereTheUsualVariablesSay(t *testing.T) {
	sent := make(chan []byte, 1000)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("X-Test") != "yes" {
			t.Errorf("%s was sent with %v: %v", r.URL.Path, r.Header, err)
		}
		sent <- body
	}))
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Test=yes")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	t.Setenv("OTEL_SERVICE_NAME", "orders")
	from := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID([]byte("which appended..")),
		SpanID:  trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	})
	pool := pgtest.New(t)
	kind := publisher.Kind{Name: "memory", Open: func(publisher.Settings) (publisher.Sink, error) {
		return &memory.Sink{}, nil
	}}
	worker(t, pool, Options{Name: "worker", Projections: []projection.Projection{notes()}, Sinks: []publisher.Kind{kind}},
		"--otel-traces")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{Trace: telemetry.Trace}.Append(
			trace.ContextWithSpanContext(t.Context(), from), tx, "c", journal.Any, event.Event{Type: "noted"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	id, missing := from.TraceID(), [][]byte{[]byte("apply default"), []byte("publish ")}
	deadline := time.After(2 * time.Minute)
	for len(missing) > 0 {
		select {
		case body := <-sent:
			if !bytes.Contains(body, []byte("orders")) {
				t.Error("the service has no name")
			}
			missing = slices.DeleteFunc(missing, func(name []byte) bool {
				return bytes.Contains(body, id[:]) && bytes.Contains(body, name)
			})
		case <-deadline:
			t.Fatalf("no span with a link was sent of %q", missing)
		}
	}
}
