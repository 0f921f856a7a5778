package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/pgtest"
	"github.com/tidemark-go/tidemark/internal/web/api"
	"github.com/tidemark-go/tidemark/internal/web/auth"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// planted begins each value that is planted, and is as much of one as gives it away.
const planted = "pl4ntedx"

// plantedFile fails in the ways in which Postgres quotes data.
const plantedFile = `-- projection: filed
-- version: 1
-- on failure: dead
CREATE TABLE filed (name text PRIMARY KEY, n int, short varchar(3), CHECK (name <> 'pl4ntedx-name checked'));
-- on: twice
INSERT INTO filed (name) VALUES (event.payload->>'name'), (event.payload->>'name');
-- on: checked
INSERT INTO filed (name) VALUES ('pl4ntedx-name checked');
-- on: cast
INSERT INTO filed (name, n) VALUES ('a', (event.payload->>'name')::int);
-- on: json
INSERT INTO filed (name) VALUES ((event.payload->>'name')::jsonb ->> 'a');
-- on: at
INSERT INTO filed (name) VALUES ((event.metadata->>'by')::timestamptz::text);
-- on: long
INSERT INTO filed (name, short) VALUES ('b', event.tags[1]);
-- on: raised
SELECT public.complain(event.payload->>'name' || event.tags[1] || (event.metadata->>'by'));
`

const plantedSQL = `
	CREATE FUNCTION public.complain(name text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no %', name USING DETAIL = name, HINT = name; END $$;
	CREATE FUNCTION public.complain_later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not %', NEW.name USING ERRCODE = '23514'; END $$;
	CREATE FUNCTION public.complain_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('public.tries') < 6 THEN RAISE EXCEPTION 'not now, %', NEW.name USING ERRCODE = '53000'; END IF; RETURN NEW; END $$;
	CREATE SEQUENCE public.tries;
	CREATE TABLE public.outgoing (event_id uuid PRIMARY KEY, campaign_id text, seq bigint, position bigint, topic text, event_type text, event_version int, intent text, aggregate_type text,
		aggregate_id text, actor text, tags text[], payload jsonb, metadata jsonb, occurred_at timestamptz, recorded_at timestamptz, arrival bigint GENERATED ALWAYS AS IDENTITY);
	CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'will not take %', NEW.payload->>'name'; END $$;
	CREATE TRIGGER refuse BEFORE INSERT ON public.outgoing FOR EACH ROW EXECUTE FUNCTION public.refuse();`

type plantedPayload struct {
	Name string `json:"name"`
}

// plantedHandlers fail in the ways in which code quotes what it was given.
func plantedHandlers() []projector.Projection {
	h := projector.NewHandlers(projector.Spec{
		Name: "handled", Version: 1, OnFailure: projector.Policy{Attempts: 2, Base: time.Millisecond, Max: time.Millisecond},
		Tables: `CREATE TABLE handled (name text PRIMARY KEY); CREATE CONSTRAINT TRIGGER later AFTER INSERT ON handled DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.complain_later()`,
	})
	for way, fail := range map[string]func(g *projector.Group, e journal.Event, name string) error{
		"quoted": func(_ *projector.Group, _ journal.Event, name string) error { return fmt.Errorf("no player %q", name) },
		"plain": func(_ *projector.Group, e journal.Event, name string) error {
			return fmt.Errorf("%s by %s of %v", name, e.Metadata, e.Tags)
		},
		"wrapped": func(_ *projector.Group, e journal.Event, _ string) error {
			return fmt.Errorf("event %s: %w", e.Payload, errors.New(e.Tags[0]))
		},
		"cut": func(_ *projector.Group, _ journal.Event, name string) error {
			return fmt.Errorf("no player %s", name[:len(planted)+3])
		},
		"shouted": func(_ *projector.Group, _ journal.Event, name string) error { return errors.New(strings.ToUpper(name)) },
		"escaped": func(_ *projector.Group, _ journal.Event, name string) error { return errors.New(url.QueryEscape(name)) },
		"permanent": func(_ *projector.Group, _ journal.Event, name string) error {
			return projector.Permanent(errors.New(name))
		},
		"panics": func(_ *projector.Group, _ journal.Event, name string) error { panic(name) },
		"dies":   func(_ *projector.Group, _ journal.Event, name string) error { panic(fmt.Errorf("no %s", name)) },
		"number": func(_ *projector.Group, _ journal.Event, name string) error { _, err := strconv.Atoi(name); return err },
		"decoded": func(_ *projector.Group, e journal.Event, _ string) error {
			return json.Unmarshal(e.Payload, new([]int))
		},
		"queued": func(g *projector.Group, _ journal.Event, name string) error {
			g.Queue("SELECT $1::int", name)
			return nil
		},
		"unencoded": func(g *projector.Group, _ journal.Event, name string) error {
			g.Queue("SELECT $1::int", struct{ Name string }{name})
			return nil
		},
		"committed": func(g *projector.Group, _ journal.Event, name string) error {
			g.Queue("INSERT INTO handled VALUES ($1)", name)
			return nil
		},
	} {
		projector.On(h, way, func(_ context.Context, g *projector.Group, e journal.Event, p plantedPayload) error {
			return fail(g, e, p.Name)
		})
	}
	var tries atomic.Int64
	shaky := projector.NewHandlers(projector.Spec{
		Name: "shaky", Version: 1, Classify: func(error) projector.Class { return projector.ClassInfrastructure },
		Tables: `CREATE TABLE shaky (name text PRIMARY KEY); CREATE TRIGGER once BEFORE INSERT ON shaky FOR EACH ROW EXECUTE FUNCTION public.complain_once()`,
	})
	projector.On(shaky, "shaken", func(_ context.Context, _ *projector.Group, _ journal.Event, p plantedPayload) error {
		if tries.Add(1) < 6 {
			return fmt.Errorf("not now, %s", p.Name)
		}
		return nil
	})
	projector.On(shaky, "disturbed", func(_ context.Context, g *projector.Group, _ journal.Event, p plantedPayload) error {
		g.Queue("INSERT INTO shaky VALUES ($1)", p.Name)
		return nil
	})
	folded := projector.NewDocument(projector.Document[plantedPayload]{
		Name: "folded", Version: 1, OnFailure: projector.Policy{Action: projector.ActionPause}, Types: []string{"folded"},
		Fold: func(_ *plantedPayload, e journal.Event) error { return fmt.Errorf("cannot fold %s", e.Payload) },
	})
	skipped := projector.NewHandlers(projector.Spec{Name: "skipped", Version: 1, OnFailure: projector.Policy{Action: projector.ActionSkip}, Tables: `CREATE TABLE skipped (name text)`})
	projector.On(skipped, "passed", func(_ context.Context, _ *projector.Group, _ journal.Event, p plantedPayload) error {
		return errors.New(p.Name)
	})
	return []projector.Projection{h, shaky, folded, skipped}
}

// meanSink fails in the ways in which sinks do, and repeats what it was given.
type meanSink struct {
	way  string
	last atomic.Pointer[string]
}

func (s *meanSink) Name() string { return "mean" }

func (s *meanSink) Publish(_ context.Context, events []publisher.Event) error {
	var all strings.Builder
	for _, e := range events {
		fmt.Fprintf(&all, "%s %s %v ", e.Payload, e.Metadata, e.Tags)
	}
	said := all.String()
	s.last.Store(&said)
	err := errors.New(said)
	switch s.way {
	case "panics":
		panic(said)
	case "pauses":
		return publisher.Pause(err)
	case "later":
		return publisher.RetryAfter(err, time.Millisecond)
	case "outage":
		return publisher.Outage(fmt.Errorf("full of %w", err))
	case "each", "none":
		partly := &publisher.BatchError{}
		for i := range events {
			if s.way == "none" || i > 0 {
				partly.Failures = append(partly.Failures, publisher.Failure{Index: i, Err: fmt.Errorf("no room for %s", said), Permanent: i%2 == 0})
			}
		}
		if len(partly.Failures) == 0 {
			return nil
		}
		return fmt.Errorf("of %s: %w", said, partly)
	}
	return err
}

func (s *meanSink) Healthy(context.Context) error {
	if said := s.last.Load(); s.way == "sick" && said != nil {
		return errors.New(*said)
	}
	return nil
}

// echo answers with what it was sent, in the way that the path names.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	ways := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	status, _ := strconv.Atoi(ways[0])
	text := string(body)
	if len(ways) > 1 {
		switch ways[1] {
		case "cut":
			text = text[:strings.Index(text, planted)+len(planted)+3]
		case "quoted":
			text = strconv.Quote(text)
		case "escaped":
			text = url.QueryEscape(text)
		case "long":
			text = strings.Repeat("no. ", 45) + text[strings.Index(text, planted):]
		case "headers":
			text = fmt.Sprint(r.Header)
		}
	}
	w.Header().Set("Location", "http://elsewhere/"+url.PathEscape(text))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

const plantedPublishers = `
topics: {all: {}}
publishers:
`

func TestAPlantedValueIsInNoTableNoLogAndNoAnswer(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), plantedSQL); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("projections/filed.sql", plantedFile)
	hooks := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(hooks.Close)
	text, publishers := plantedPublishers, 0
	for _, way := range []string{"400", "422/cut", "400/quoted", "500/escaped", "500", "404", "410", "302", "429", "400/long", "422/headers"} {
		publishers++
		text += fmt.Sprintf("  hook%s:\n    topics: [all]\n    attempts: 2\n    retry_base: 1ms\n    sink: {kind: webhook, url: %q, unsigned: true, allow_networks: [127.0.0.0/8]}\n",
			strings.ReplaceAll(way, "/", "-"), hooks.URL+"/"+way)
	}
	for _, way := range []string{"whole", "panics", "pauses", "later", "outage", "each", "none", "sick"} {
		publishers++
		text += fmt.Sprintf("  mean-%s:\n    topics: [all]\n    attempts: 2\n    retry_base: 1ms\n    sink: {kind: mean, way: %s}\n", way, way)
	}
	publishers++
	text += fmt.Sprintf("  rows:\n    topics: [all]\n    attempts: 2\n    retry_base: 1ms\n    sink: {kind: postgres, url: %q, table: public.outgoing}\n", pool.Config().ConnString())
	mean := publisher.Kind{Name: "mean", Open: func(s publisher.Settings) (publisher.Sink, error) {
		var settings struct {
			Way string `yaml:"way"`
		}
		err := s.Decode(&settings)
		return &meanSink{way: settings.Way}, err
	}}
	ways := []string{
		"twice", "checked", "cast", "json", "at", "long", "raised", "quoted", "plain", "wrapped", "cut", "shouted", "escaped", "permanent", "panics", "dies", "number", "decoded", "queued", "unencoded",
		"committed", "folded", "passed", "shaken", "disturbed",
	}
	for _, way := range ways {
		value := func(of string) string { return fmt.Sprintf("%s-%s %s&<%d>", planted, of, way, 48151623) }
		e := journal.Event{
			Type: way, Payload: document(t, map[string]any{"name": value("name"), "more": []any{map[string]any{value("key"): 48151623}}}),
			Metadata: document(t, map[string]any{"by": value("by")}), Tags: []string{"card=" + value("tag"), planted + "-tag"},
		}
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Append(t.Context(), tx, "c-"+way, journal.Any, e)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	w := plantedWorker(t, pool, Options{Name: "worker", Projections: plantedHandlers(), Sinks: []publisher.Kind{mean}},
		"--projections-dir", filepath.Join(dir, "projections"), "--publishers", write("publishers.yaml", text), "--retry-base", "1ms", "--retry-max", "5ms", "--retry-attempts", "2", "--snapshot-every", "1")

	// All fails that is to fail.
	w.until(t, `SELECT count(DISTINCT campaign_id) >= $1 FROM tidemark.failure_log`, len(ways)-2)
	w.until(t, `SELECT count(*) FILTER (WHERE last_error <> '' OR EXISTS (SELECT FROM tidemark.parked k WHERE k.publisher = p.publisher)) >= $1 FROM tidemark.publications p`, publishers)
	w.until(t, `SELECT (SELECT count(*) FROM shaky) = 1 AND NOT EXISTS (SELECT FROM tidemark.deferred WHERE status = 'failed' AND projection <> 'folded')`)
	if !strings.Contains(w.log.String(), "breaker open") || !strings.Contains(w.log.String(), "isolating the cause") {
		t.Error("the breaker has not opened, or no group has failed")
	}

	// What operators do fails as well, and their answers are looked at too.
	for _, projection := range []string{"filed", "handled", "folded", "skipped"} {
		w.post(t, "/api/v1/projections/"+projection+"/verify", `{}`)
		w.post(t, "/api/v1/projections/"+projection+"/rebuild", `{}`)
		for _, way := range ways {
			w.get(t, auth.Admin, "/api/v1/campaigns/c-"+way+"/verify?projection="+projection)
			w.get(t, auth.Admin, "/api/v1/campaigns/c-"+way+"/asof?seq=1&projection="+projection)
			w.get(t, auth.Admin, "/api/v1/campaigns/c-"+way+"/diff?to=1&projection="+projection)
			w.get(t, auth.Admin, "/api/v1/campaigns/c-"+way+"/why?projection="+projection+"&key=")
			w.get(t, auth.Admin, "/campaign?id=c-"+way+"&then=1")
		}
	}
	for _, name := range []string{"hook400", "hook422-cut", "mean-whole", "mean-none", "mean-panics", "rows"} {
		w.post(t, "/api/v1/publishers/all/"+name+"/test-send", `{"campaign_id": "c-cast", "seq": 1}`)
		w.post(t, "/api/v1/publishers/all/"+name+"/replay", `{"campaign_id": "c-cast", "from": 1}`)
	}
	w.until(t, `SELECT NOT EXISTS (SELECT FROM tidemark.operations WHERE state IN ('pending', 'running') AND kind <> 'republish')`)

	w.everywhere(t)
}

func document(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// plantedRun is a worker with all that it logs, and the answers of its admin listener.
type plantedRun struct {
	pool   *pgxpool.Pool
	log    *logged
	base   string
	tokens map[auth.Role]string
	seen   map[string]bool
}

// logged keeps what is written to it.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func plantedWorker(t *testing.T, pool *pgxpool.Pool, opts Options, args ...string) *plantedRun {
	t.Helper()
	flags := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	settings, set := config.NewWorker(flags)
	err := flags.Parse(append([]string{
		"--database-url", pool.Config().ConnString(), "--http-addr", "off", "--poll-interval", "20ms", "--publish-poll-interval", "20ms", "--admin-addr", "127.0.0.1:0", "--admin-payloads", "admin",
		"--admin-statement-timeout", "1m",
	}, args...))
	if err := errors.Join(err, set.Finish()); err != nil {
		t.Fatal(err)
	}
	w := &plantedRun{pool: pool, log: &logged{}, tokens: map[auth.Role]string{}, seen: map[string]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, *settings, opts, slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	for _, role := range []auth.Role{auth.Viewer, auth.Operator, auth.Admin} {
		if w.tokens[role], err = auth.Create(t.Context(), pool, role.String(), role, 0, "the test"); err != nil {
			t.Fatal(err)
		}
	}
	soon(t, "the admin listener", func() bool {
		m := regexp.MustCompile(`"admin listener" address=(\S+)`).FindStringSubmatch(w.log.String())
		if m != nil {
			w.base = "http://" + m[1]
		}
		return m != nil
	})
	return w
}

func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in a minute: %s", what)
		}
	}
}

func (w *plantedRun) until(t *testing.T, sql string, args ...any) {
	t.Helper()
	defer func() {
		if t.Failed() {
			_ = os.WriteFile("/tmp/web-planted.log", []byte(w.log.String()), 0o600)
			var state string
			_ = w.pool.QueryRow(context.Background(), `SELECT string_agg(d::text, E'\n') FROM tidemark.deferred d WHERE status = 'failed'`).Scan(&state)
			t.Log(state)
		}
	}()
	soon(t, sql, func() (is bool) {
		if err := w.pool.QueryRow(t.Context(), sql, args...).Scan(&is); err != nil {
			t.Fatal(err)
		}
		return is
	})
}

func (w *plantedRun) send(t *testing.T, role auth.Role, method, path, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, w.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.tokens[role])
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer) + fmt.Sprint(response.Header)
}

// get reads as a role, and looks for the value where the role does not see it.
func (w *plantedRun) get(t *testing.T, role auth.Role, path string) string {
	t.Helper()
	answer := w.send(t, role, http.MethodGet, path, "")
	if role != auth.Admin {
		absent(t, role.String()+" of GET "+path, answer)
	}
	return answer
}

// post acts as an admin, and looks for the value in the answer.
func (w *plantedRun) post(t *testing.T, path, with string) {
	t.Helper()
	absent(t, "POST "+path, w.send(t, auth.Admin, http.MethodPost, path, `{"reason": "a test", "with": `+with+`}`))
}

// absent fails the test if a text holds the value, in capitals or not, or its number.
func absent(t *testing.T, what, text string) {
	t.Helper()
	for _, value := range []string{planted, "48151623"} {
		if i := strings.Index(strings.ToLower(text), value); i >= 0 {
			t.Errorf("%s tells the value: …%s…", what, text[max(0, i-300):min(len(text), i+60)])
			return
		}
	}
}

// everywhere looks for the value in every table but those that are for it, in the log, in every page and every answer.
func (w *plantedRun) everywhere(t *testing.T) {
	t.Helper()
	rows, err := w.pool.Query(t.Context(), `SELECT c.relname::text FROM pg_catalog.pg_class c WHERE c.relnamespace = 'tidemark'::regnamespace AND c.relkind IN ('r', 'p')
		AND c.relname NOT IN ('journal', 'event_tags', 'snapshots')`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 15 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		rows, err := w.pool.Query(t.Context(), "SELECT t::text FROM "+pgx.Identifier{"tidemark", table}.Sanitize()+" t")
		if err != nil {
			t.Fatal(err)
		}
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			absent(t, "table "+table, text)
		}
	}
	for _, role := range []auth.Role{auth.Viewer, auth.Operator} {
		w.crawl(t, role)
		w.calls(t, role)
	}
	for line := range strings.Lines(w.log.String()) {
		absent(t, "the log", line)
	}
}

// crawl reads every page that another leads to, up to a number of each.
func (w *plantedRun) crawl(t *testing.T, role auth.Role) {
	t.Helper()
	links, queue, seen, of := regexp.MustCompile(`(?:href|action|src)="(/[^"]*)"`), []string{"/", "/settings", "/audit", "/postgres", "/lag"}, map[string]bool{}, map[string]int{}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		if place, _, _ := strings.Cut(path, "?"); seen[path] || of[place] > 25 || strings.HasPrefix(place, "/static") || strings.HasPrefix(place, "/events") || place == "/logout" {
			continue
		} else {
			of[place]++
		}
		seen[path] = true
		for _, link := range links.FindAllStringSubmatch(w.get(t, role, path), -1) {
			queue = append(queue, html.UnescapeString(link[1]))
		}
	}
	if len(of) < 12 {
		t.Errorf("only %d kinds of pages were found: %v", len(of), of)
	}
}

// calls reads every route of the API, of every campaign and publisher.
func (w *plantedRun) calls(t *testing.T, role auth.Role) {
	t.Helper()
	acts, err := admin.New(admin.Config{Pool: w.pool})
	if err != nil {
		t.Fatal(err)
	}
	a, err := api.New(api.Config{Pool: w.pool, Acts: acts, Failed: func(http.ResponseWriter, *http.Request, error) {}})
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range a.Routes() {
		if route.Method != http.MethodGet {
			continue
		}
		for _, campaign := range []string{"c-raised", "c-plain", "c-folded", "c-cast"} {
			for _, name := range []string{"filed", "handled", "folded"} {
				path := strings.NewReplacer("{projection}", name, "{campaign}", campaign, "{seq}", "1", "{id}", "1", "{topic}", "all", "{publisher}", "hook422-cut", "{group}", "default", "{owner}", "x", "{name}", "x").Replace(route.Pattern)
				for _, query := range []string{"?limit=100", "?projection=" + name, "?projection=" + name + "&seq=1", "?projection=" + name + "&from=0&to=1", "?group=default"} {
					if key := role.String() + path + query; !w.seen[key] {
						w.seen[key] = true
						w.get(t, role, path+query)
					}
				}
			}
		}
	}
}
