package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	logsink "github.com/tidemark-go/tidemark/pkg/sink/log"
	"github.com/tidemark-go/tidemark/pkg/worker"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// lines is a log that tests can read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// line returns the log record with the given message.
func (l *lines) line(message string) (record map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for text := range strings.SplitSeq(l.text.String(), "\n") {
		record = nil
		if json.Unmarshal([]byte(text), &record) == nil && record["msg"] == message {
			return record
		}
	}
	return nil
}

// sessions returns a projection of the program's own.
func sessions() projection.Projection {
	type opened struct{ Name string }
	return projection.Handlers{
		Name: "sessions", Version: 1,
		Tables: "CREATE TABLE sessions (campaign_id text PRIMARY KEY, name text NOT NULL)",
		On: []projection.Handler{
			projection.Handle("session_opened", func(_ context.Context, g *projection.Group, e event.Event, p opened) error {
				g.Queue("INSERT INTO sessions VALUES ($1, $2)", e.CampaignID, p.Name)
				return nil
			}),
		},
	}
}

func TestAProgramOfOnesOwnHasAllThatTheStockWorkerHas(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	log := &lines{}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	w := worker.New(worker.Options{
		Projections: []projection.Projection{sessions()},
		Sinks:       []publisher.Kind{logsink.Kind()},
		Logger:      slog.New(slog.NewJSONHandler(log, nil)),
		Settings: map[string]string{
			"TIDEMARK_DATABASE_URL":    pool.Config().ConnString(),
			"TIDEMARK_CONSUMER_GROUP":  "games",
			"TIDEMARK_HTTP_ADDR":       "127.0.0.1:0",
			"TIDEMARK_ADMIN_ADDR":      "127.0.0.1:0",
			"TIDEMARK_ADMIN_ANONYMOUS": "viewer",
			"TIDEMARK_PUBLISH_URL":     "log:",
		},
	})
	go func() { done <- w.Run(ctx) }()
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(ctx, tx, "table-7", journal.Any,
			event.Event{Type: "session_opened", Payload: []byte(`{"name":"Ann"}`)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	await(t, done, func() bool {
		var name string
		err := pool.QueryRow(ctx, "SELECT name FROM tidemark_views.sessions WHERE campaign_id = 'table-7'").Scan(&name)
		return err == nil && name == "Ann" && log.line("event")["campaign_id"] == "table-7"
	})
	started := log.line("worker starts")
	if started["consumer_group"] != "games" || started["mode"] != "outbox_apply_only" {
		t.Errorf("the log says %v", started)
	}
	if pages, _ := started["pages"].(string); !strings.HasPrefix(pages, "http://127.0.0.1:") {
		t.Errorf("pages are at %q", pages)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatalf("Run returned %v after its context ended", err)
	}
}

func await(t *testing.T, done chan error, condition func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for !condition() {
		select {
		case err := <-done:
			t.Fatalf("the worker ended: %v", err)
		case <-deadline:
			t.Fatal("not within two minutes")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestAWorkerNamesAllThatIsWrongWithItsSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings map[string]string
		want     []string
	}{
		"no database": {map[string]string{}, []string{"TIDEMARK_DATABASE_URL is not set"}},
		"several": {
			map[string]string{"TIDEMARK_DATABSE_URL": "postgres://x", "TIDEMARK_LEASE_TTL": "1ms"},
			[]string{"TIDEMARK_DATABSE_URL is not a setting", `TIDEMARK_LEASE_TTL="1ms" is too short`},
		},
		"an archive that is not linked": {
			map[string]string{
				"TIDEMARK_DATABASE_URL": pgtest.URL(t), "TIDEMARK_ARCHIVE_URL": "s3://bucket", "TIDEMARK_HTTP_ADDR": "off",
			},
			[]string{"TIDEMARK_ARCHIVE_URL: ", "adapters/s3", "worker.Options.Archives"},
		},
		"a sink that is not linked": {
			map[string]string{
				"TIDEMARK_DATABASE_URL": pgtest.URL(t), "TIDEMARK_PUBLISH_URL": "kafka://x/y", "TIDEMARK_HTTP_ADDR": "off",
			},
			[]string{`no kind of sink "kafka"`, "worker.Options.Sinks"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := worker.New(worker.Options{Settings: c.settings}).Run(t.Context())
			if err == nil {
				err = errors.New("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v: does not say %q", err, want)
				}
			}
		})
	}
}
