package monitoring_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/app"
	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
)

// besides adds what a workload of a second does not produce: a running rebuild, for which no worker
// works, an inbox row of a consumer, and a ghost event.
const besides = `
	INSERT INTO tidemark.consumer_groups (name, state) VALUES ('elsewhere', 'ready');
	INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
	VALUES ('scores', 'elsewhere', 1, 'public', '{scores}', 'active'),
		('scores~next', 'elsewhere', 2, 'tidemark_next_scores', '{scores}', 'active');
	INSERT INTO tidemark.rebuilds (projection, max_share, allow_failed, keep, verify_sample, verify_ignore, actor,
		reason, campaigns, events, active_at)
	VALUES ('scores', 0.5, 0, '1 day', 0, '{}', 'ada', '', 10, 100, now());
	INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status)
		VALUES ('x', 'scores~next', 'elsewhere', 1, 'catching_up');
	INSERT INTO tidemark.inbox (consumer, campaign_id, event_id, expires_at) VALUES ('c', 'oak', gen_random_uuid(), now());
	INSERT INTO tidemark.readers (topic, publisher, position) VALUES ('elsewhere', 'elsewhere', 0);
	INSERT INTO tidemark.ghosts (topic, publisher, position, campaign_id, event_id, seq)
		VALUES ('elsewhere', 'elsewhere', 1, 'oak', gen_random_uuid(), 1);
`

// notes is a projection that applies "noted", and fails transiently at "flaky" and permanently at
// "poison".
func notes(name string) projection.Projection {
	return projection.Handlers{
		Name: name, Version: 1, Tables: "CREATE TABLE " +
			name + " (campaign_id text, seq bigint, PRIMARY KEY (campaign_id, seq))",
		OnFailure: projection.Policy{Base: time.Hour, Max: time.Hour},
		On: []projection.Handler{
			projection.Handle("noted", func(_ context.Context, g *projection.Group, e event.Event, _ struct{}) error {
				g.Queue("INSERT INTO "+name+" VALUES ($1, $2)", e.CampaignID, e.Seq)
				return nil
			}),
			projection.Handle("flaky", func(context.Context, *projection.Group, event.Event, struct{}) error {
				return errors.New("not now")
			}),
			projection.Handle("poison", func(context.Context, *projection.Group, event.Event, struct{}) error {
				return projection.Permanent(errors.New("never"))
			}),
		},
	}
}

// kind is a sink that permanently refuses "flaky".
func kind() publisher.Kind {
	sink := &memory.Sink{Refuse: func(e publisher.Event) (error, bool) {
		if e.Type == "flaky" {
			return errors.New("no"), true
		}
		return nil, false
	}}
	return publisher.Kind{Name: "memory", Open: func(publisher.Settings) (publisher.Sink, error) { return sink, nil }}
}

// worker runs a worker of a group until the test ends, and returns the address of its metrics.
func worker(t *testing.T, pool *pgxpool.Pool, group, name string, args ...string) (url string) {
	t.Helper()
	flags := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	settings, set := config.NewWorker(flags)
	args = append(args, "--database-url", pool.Config().ConnString(), "--http-addr", "127.0.0.1:0", "--poll-interval",
		"20ms", "--consumer-group", group)
	if err := errors.Join(flags.Parse(args), set.Finish()); err != nil {
		t.Fatal(err)
	}
	log := &address{found: make(chan string, 1)}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	opts := app.Options{
		Name: "worker", Projections: []projection.Projection{notes(name)},
		Sinks: []publisher.Kind{kind()},
	}
	go func() { done <- app.Run(ctx, *settings, opts, slog.New(slog.NewJSONHandler(log, nil))) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case addr := <-log.found:
		return "http://" + addr + "/metrics"
	case err := <-done:
		done <- nil
		t.Fatalf("the worker of %s ended: %v", group, err)
		return ""
	}
}

// address finds the address of the metrics in a log.
type address struct {
	once  sync.Once
	found chan string
}

func (a *address) Write(line []byte) (int, error) {
	if m := regexp.MustCompile(`"msg":"health and metrics","address":"([^"]+)"`).FindSubmatch(line); m != nil {
		a.once.Do(func() { a.found <- string(m[1]) })
	}
	return len(line), nil
}

func scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func appendEvents(t *testing.T, pool *pgxpool.Pool, campaign string, types ...string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		var events []event.Event
		for _, name := range types {
			events = append(events, event.Event{Type: name})
		}
		_, err := journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any, events...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
