package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// elsewhere gives every metric of the database a value. It adds a group without a worker, whose
// projection is being rebuilt and has a dead campaign, an expired mark, and an event that was sent
// and lost.
const elsewhere = `
	INSERT INTO tidemark.consumer_groups (name, state) VALUES ('elsewhere', 'ready');
	INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
	VALUES ('scores', 'elsewhere', 1, 'public', '{scores}', 'active'),
		('scores~next', 'elsewhere', 2, 'tidemark_next_scores', '{scores}', 'active');
	INSERT INTO tidemark.rebuilds (projection, max_share, allow_failed, keep, verify_sample, verify_ignore, actor,
		reason, campaigns, events, active_at)
	VALUES ('scores', 0.5, 0, '1 day', 0, '{}', 'ada', '', 10, 100, now());
	INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, next_attempt_at,
		error_class, first_failed_at, last_failed_at)
	VALUES ('x', 'scores', 'elsewhere', 1, 'dead', 'infinity', 'permanent', now() - interval '1 hour', now());
	INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status)
		VALUES ('x', 'scores~next', 'elsewhere', 1, 'catching_up');
	INSERT INTO tidemark.inbox (consumer, campaign_id, event_id, expires_at) VALUES ('c', 'oak', gen_random_uuid(), now());
	INSERT INTO tidemark.ghosts (topic, publisher, position, campaign_id, event_id, seq)
		VALUES ('events', 'default', 1, 'oak', gen_random_uuid(), 1);
`

const (
	workCampaigns = 10
	workEvents    = 20 // of type noted in each campaign; one campaign also has an event of each other type
)

// notes applies events of type noted. The first attempt at "flaky" fails, all attempts at "poison"
// fail, and "odd" is skipped.
func notes() projection.Projection {
	h := &projection.Handlers{
		Name: "notes", Version: 1,
		Tables:      "CREATE TABLE notes (campaign_id text, seq bigint, PRIMARY KEY (campaign_id, seq))",
		OnFailure:   projection.Policy{Base: time.Millisecond},
		OnFailureOf: map[string]projection.Policy{"odd": {Action: projection.ActionSkip}},
	}
	apply := func(_ context.Context, g *projection.Group, e event.Event, _ struct{}) error {
		g.Queue("INSERT INTO notes VALUES ($1, $2)", e.CampaignID, e.Seq)
		return nil
	}
	var tried atomic.Int64
	h.On = append(h.On, projection.Handle("noted", apply))
	h.On = append(h.On, projection.Handle("flaky", func(ctx context.Context, g *projection.Group, e event.Event, none struct{}) error {
		if tried.Add(1) <= 2 { // once in the group and once in the search for the culprit
			return errors.New("not now")
		}
		return apply(ctx, g, e, none)
	}))
	fail := func(context.Context, *projection.Group, event.Event, struct{}) error {
		return projection.Permanent(errors.New("never"))
	}
	h.On = append(h.On, projection.Handle("poison", fail))
	h.On = append(h.On, projection.Handle("odd", fail))
	return h
}

// worker runs a worker until the test ends and returns the URL of its metrics.
func worker(t *testing.T, pool *pgxpool.Pool, opts Options, args ...string) (url string) {
	t.Helper()
	flags := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	settings, set := config.NewWorker(flags)
	err := flags.Parse(append([]string{
		"--database-url", pool.Config().ConnString(), "--http-addr", "127.0.0.1:0",
		"--poll-interval", "20ms",
	}, args...))
	if err := errors.Join(err, set.Finish()); err != nil {
		t.Fatal(err)
	}
	settings.PublishURL = "memory://memory"
	said := &address{found: make(chan string, 1)}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, *settings, opts, slog.New(slog.NewTextHandler(said, nil))) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	select {
	case addr := <-said.found:
		return "http://" + addr + "/metrics"
	case err := <-done:
		done <- err
		t.Fatal(err)
		return ""
	}
}

// address finds the address of the metrics in a log.
type address struct {
	once  sync.Once
	found chan string
}

func (a *address) Write(line []byte) (int, error) {
	if m := regexp.MustCompile(`"health and metrics" address=(\S+)`).FindSubmatch(line); m != nil {
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

// value returns the value of the series with the labels, or -1 without one. labels alternates names
// and values.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	for _, m := range families[name].GetMetric() {
		has := map[string]string{}
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		match := true
		for i := 0; i < len(labels); i += 2 {
			match = match && has[labels[i]] == labels[i+1]
		}
		switch {
		case !match:
		case m.Counter != nil:
			return m.GetCounter().GetValue()
		case m.Gauge != nil:
			return m.GetGauge().GetValue()
		default:
			return float64(m.GetHistogram().GetSampleCount())
		}
	}
	return -1
}

// eventually scrapes until well returns nil, and returns the last scrape.
func eventually(t *testing.T, url string, well func(map[string]*dto.MetricFamily) error) map[string]*dto.MetricFamily {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		families := scrape(t, url)
		err := well(families)
		if err == nil {
			tick.Stop()
			return families
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestAWorkerThatOnlyPublishesMakesScheduledAppends(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `SELECT tidemark.append_at('a', now(), '[{"type": "noted"}]'),
		tidemark.append_at('a', now() + interval '1 h', '[{"type": "noted"}]')`); err != nil {
		t.Fatal(err)
	}
	kind := publisher.Kind{Name: "memory", Open: func(publisher.Settings) (publisher.Sink, error) {
		return &memory.Sink{}, nil
	}}
	url := worker(t, pool, Options{Sinks: []publisher.Kind{kind}})
	eventually(t, url, func(families map[string]*dto.MetricFamily) error {
		if fired, pending := value(families, "tidemark_scheduled_fired_total"), value(families,
			"tidemark_scheduled_pending"); fired != 1 || pending != 1 {
			return fmt.Errorf("%v appends are made and %v pending, expected 1 and 1", fired, pending)
		}
		return nil
	})
}

func TestMetricsSayWhatHappened(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "VACUUM tidemark.outbox"); err != nil {
		t.Fatal(err)
	}
	sink := &memory.Sink{Refuse: func(e publisher.Event) (error, bool) {
		if e.Type == "odd" {
			return errors.New("too odd"), true
		}
		return nil, false
	}}
	kind := publisher.Kind{Name: "memory", Open: func(publisher.Settings) (publisher.Sink, error) { return sink, nil }}
	url := worker(t, pool, Options{
		Name: "worker", Projections: []projection.Projection{notes()},
		Sinks: []publisher.Kind{kind},
	})
	before := eventually(t, url, func(m map[string]*dto.MetricFamily) error {
		if value(m, "tidemark_publications_held") != 1 || value(m, "tidemark_listening") != 1 {
			return errors.New("the worker has not begun")
		}
		return nil
	})
	for _, name := range []string{"tidemark_events_applied_total", "tidemark_groups_applied_total"} {
		if got := value(before, name); got != 0 {
			t.Errorf("before anything has happened %s is %v", name, got)
		}
	}

	for i := range workCampaigns {
		appendEvents(t, pool, fmt.Sprint("c", i), slices.Repeat([]string{"noted"}, workEvents)...)
	}
	appendEvents(t, pool, "flaky", "noted", "flaky", "noted")
	appendEvents(t, pool, "odd", "noted", "odd", "noted")
	appendEvents(t, pool, "poison", "noted", "poison", "noted", "noted")

	const good = workCampaigns * workEvents
	const all = good + 10 // and one position that registering the group takes
	after := eventually(t, url, func(m map[string]*dto.MetricFamily) error {
		for _, want := range []struct {
			value  float64
			name   string
			labels []string
		}{
			{good + 3 + 2 + 1, "tidemark_projection_applied_total", []string{"projection", "notes"}},
			{3, "tidemark_projection_failures_total", []string{"projection", "notes"}},
			{1, "tidemark_projection_retries_total", []string{"projection", "notes"}},
			{1, "tidemark_projection_dead_total", []string{"projection", "notes"}},
			{1, "tidemark_projection_skipped_total", []string{"projection", "notes"}},
			{all - 2, "tidemark_events_published_total", nil},
			{1, "tidemark_events_refused_total", nil},
			{0, "tidemark_publish_failures_total", nil},
			{0, "tidemark_leases_lost_total", []string{"reason", "taken_over"}},
			{0, "tidemark_fence_rejections_total", nil},
			{1, "tidemark_worker_info", []string{"consumer_group", "default", "mode", "outbox_apply_only"}},
			{1, "tidemark_status_collecting", nil},
			{all + 1, "tidemark_journal_position", nil},
			{0, "tidemark_queue_entries", []string{"consumer_group", "default", "status", "pending"}},
			{1, "tidemark_queue_entries", []string{"consumer_group", "default", "status", "dead"}},
			{1, "tidemark_queue_entries", []string{"consumer_group", "elsewhere", "status", "catching_up"}},
			{all, "tidemark_group_lag_events", []string{"consumer_group", "elsewhere"}},
			{0, "tidemark_group_lag_events", []string{"consumer_group", "default"}},
			{3, "tidemark_projection_lag_events", []string{"consumer_group", "default", "projection", "notes"}},
			{1, "tidemark_failed_campaigns", []string{
				"consumer_group", "default", "projection", "notes", "status", "dead",
				"class", "permanent",
			}},
			{1, "tidemark_workers", []string{"consumer_group", "default"}},
			{0, "tidemark_workers", []string{"consumer_group", "elsewhere"}},
			{0.9, "tidemark_rebuild_progress_ratio", []string{"projection", "scores"}},
			{1, "tidemark_publisher_status", []string{"publisher", "default", "status", "ACTIVE"}},
			{1, "tidemark_publisher_parked", []string{"publisher", "default"}},
			{0, "tidemark_publisher_lag_events", []string{"publisher", "default"}},
		} {
			if got := value(m, want.name, want.labels...); got != want.value {
				return fmt.Errorf("%s%v is %v, want %v", want.name, want.labels, got, want.value)
			}
		}
		return missing(t, m)
	})
	if applied, events := value(after, "tidemark_events_applied_total"),
		after["tidemark_group_events"].GetMetric()[0].GetHistogram().GetSampleSum(); applied != events || applied < all {
		t.Errorf("%v events were applied, %v in groups, of %d", applied, events, all)
	}
	for name := range after {
		if strings.HasPrefix(name, "tidemark_") && !slices.Contains(documented(t), name) {
			t.Errorf("docs/reference/metrics.md does not know %s", name)
		}
	}
	for name, family := range after {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if strings.HasPrefix(name, "tidemark_") && slices.Contains([]string{"c0", "flaky", "odd", "poison", "x"},
					l.GetValue()) {
					t.Errorf("%s has a campaign as its label %s", name, l.GetName())
				}
			}
		}
	}
}

// documented returns the metrics of docs/reference/metrics.md, without the section on metrics of
// applications.
func documented(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	own, _, _ := strings.Cut(string(page), "## Metrics of applications")
	names := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(tidemark_[a-z_]+)` \\|").FindAllStringSubmatch(own, -1) {
		names[m[1]] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// missing returns an error for the first documented metric that is not exported.
func missing(t *testing.T, families map[string]*dto.MetricFamily) error {
	t.Helper()
	for _, name := range documented(t) {
		if families[name] == nil {
			return fmt.Errorf("%s is in docs/reference/metrics.md and not exported", name)
		}
	}
	return nil
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
