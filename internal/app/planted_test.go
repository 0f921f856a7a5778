package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/sinks"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// planted is the prefix of each planted value, and gives it away.
const planted = "pl4ntedx"

// plantedFile fails in the ways in which Postgres quotes data.
const plantedFile = `-- projection: filed
-- version: 1
-- on failure: dead
CREATE TABLE filed (name text PRIMARY KEY, campaign_id text UNIQUE, n int, short varchar(3), CHECK (name <> 'pl4ntedx-name checked'));
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
	CREATE FUNCTION public.complain(name text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'no %', name USING DETAIL = name, HINT = name; END $$;
	CREATE FUNCTION public.complain_later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'not %', NEW.name USING ERRCODE = '23514'; END $$;
	CREATE FUNCTION public.complain_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('public.tries') < 3 THEN RAISE EXCEPTION 'not now, %', NEW.name USING ERRCODE = '53000'; END IF;
		RETURN NEW; END $$;
	CREATE SEQUENCE public.tries;
	CREATE TABLE public.outgoing (event_id uuid PRIMARY KEY, campaign_id text, seq bigint, position bigint, topic text,
		event_type text, event_version int, intent text, aggregate_type text, aggregate_id text, actor text,
		tags text[], payload jsonb, metadata jsonb, occurred_at timestamptz, recorded_at timestamptz,
		arrival bigint GENERATED ALWAYS AS IDENTITY);
	CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'will not take %', NEW.payload->>'name'; END $$;
	CREATE TRIGGER refuse BEFORE INSERT ON public.outgoing FOR EACH ROW EXECUTE FUNCTION public.refuse();`

type plantedPayload struct {
	Name string `json:"name"`
}

// plantedHandlers fail in the ways in which code quotes its input.
func plantedHandlers() []projection.Projection {
	h := &projection.Handlers{
		Name: "handled", Version: 1,
		OnFailure: projection.Policy{Attempts: 2, Base: time.Millisecond, Max: time.Millisecond},
		Tables: `CREATE TABLE handled (name text PRIMARY KEY, campaign_id text UNIQUE);
			CREATE CONSTRAINT TRIGGER later AFTER INSERT ON handled DEFERRABLE INITIALLY DEFERRED
				FOR EACH ROW EXECUTE FUNCTION public.complain_later()`,
	}
	for way, fail := range map[string]func(g *projection.Group, e event.Event, name string) error{
		"quoted": func(_ *projection.Group, _ event.Event, name string) error {
			return fmt.Errorf("no player %q", name)
		},
		"plain": func(_ *projection.Group, e event.Event, name string) error {
			return fmt.Errorf("%s by %s of %v", name, e.Metadata, e.Tags)
		},
		"wrapped": func(_ *projection.Group, e event.Event, _ string) error {
			return fmt.Errorf("event %s: %w", e.Payload, errors.New(e.Tags[0]))
		},
		"cut": func(_ *projection.Group, _ event.Event, name string) error {
			return fmt.Errorf("no player %s", name[:len(planted)+3])
		},
		"shouted": func(_ *projection.Group, _ event.Event, name string) error {
			return errors.New(strings.ToUpper(name))
		},
		"escaped": func(_ *projection.Group, _ event.Event, name string) error {
			return errors.New(url.QueryEscape(name))
		},
		"permanent": func(_ *projection.Group, _ event.Event, name string) error {
			return projection.Permanent(errors.New(name))
		},
		"panics": func(_ *projection.Group, _ event.Event, name string) error { panic(name) },
		"dies":   func(_ *projection.Group, _ event.Event, name string) error { panic(fmt.Errorf("no %s", name)) },
		"number": func(_ *projection.Group, _ event.Event, name string) error {
			_, err := strconv.Atoi(name)
			return err
		},
		"decoded": func(_ *projection.Group, e event.Event, _ string) error {
			return json.Unmarshal(e.Payload, new([]int))
		},
		"queued": func(g *projection.Group, _ event.Event, name string) error {
			g.Queue("SELECT $1::int", name)
			return nil
		},
		"unencoded": func(g *projection.Group, _ event.Event, name string) error {
			g.Queue("SELECT $1::int", struct{ Name string }{name})
			return nil
		},
		"committed": func(g *projection.Group, _ event.Event, name string) error {
			g.Queue("INSERT INTO handled VALUES ($1)", name)
			return nil
		},
	} {
		h.On = append(h.On, projection.Handle(event.Type[plantedPayload](way), func(_ context.Context, g *projection.Group, e event.Event, p plantedPayload) error {
			return fail(g, e, p.Name)
		}))
	}
	var tries atomic.Int64
	shaky := &projection.Handlers{
		Name: "shaky", Version: 1, Classify: func(error) projection.Class { return projection.ClassInfrastructure },
		Tables: `CREATE TABLE shaky (name text PRIMARY KEY, campaign_id text UNIQUE);
			CREATE TRIGGER once BEFORE INSERT ON shaky FOR EACH ROW EXECUTE FUNCTION public.complain_once()`,
		On: []projection.Handler{
			projection.Handle("shaken", func(_ context.Context, _ *projection.Group, _ event.Event, p plantedPayload) error {
				if tries.Add(1) < 3 {
					return fmt.Errorf("not now, %s", p.Name)
				}
				return nil
			}),
		},
	}
	disturb := func(_ context.Context, g *projection.Group, _ event.Event, p plantedPayload) error {
		g.Queue("INSERT INTO shaky VALUES ($1)", p.Name)
		return nil
	}
	shaky.On = append(shaky.On, projection.Handle("disturbed", disturb))
	folded := projection.Document[plantedPayload]{
		Name: "folded", Version: 1, Types: []string{"folded"},
		OnFailure: projection.Policy{Action: projection.ActionPause},
		Fold:      func(_ *plantedPayload, e event.Event) error { return fmt.Errorf("cannot fold %s", e.Payload) },
	}
	skipped := &projection.Handlers{
		Name: "skipped", Version: 1, Tables: `CREATE TABLE skipped (name text, campaign_id text)`,
		OnFailure: projection.Policy{Action: projection.ActionSkip},
	}
	pass := func(_ context.Context, _ *projection.Group, _ event.Event, p plantedPayload) error {
		return errors.New(p.Name)
	}
	skipped.On = append(skipped.On, projection.Handle("passed", pass))
	return []projection.Projection{h, shaky, folded, skipped}
}

// meanSink fails in the ways in which sinks do, and repeats its input.
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
				failure := publisher.Failure{Index: i, Err: fmt.Errorf("no room for %s", said), Permanent: i%2 == 0}
				partly.Failures = append(partly.Failures, failure)
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

// echo responds with the request's body in the way that the path names.
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
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("projections/filed.sql", plantedFile)
	hooks := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(hooks.Close)
	const pair = "\n    topics: [all]\n    attempts: 2\n    retry_base: 1ms\n    sink: "
	text, publishers := plantedPublishers, 0
	for _, way := range []string{
		"400", "422/cut", "400/quoted", "500/escaped", "500", "404", "410", "302", "429", "400/long", "422/headers",
	} {
		publishers++
		const webhook = "{kind: webhook, url: %q, unsigned: true, allow_networks: [127.0.0.0/8]}\n"
		text += fmt.Sprintf("  hook%s:"+pair+webhook,
			strings.ReplaceAll(way, "/", "-"), hooks.URL+"/"+way)
	}
	for _, way := range []string{"whole", "panics", "pauses", "later", "outage", "each", "none", "sick"} {
		publishers++
		text += fmt.Sprintf("  mean-%s:"+pair+"{kind: mean, way: %s}\n", way, way)
	}
	publishers++
	text += fmt.Sprintf("  rows:"+pair+"{kind: postgres, url: %q, table: public.outgoing}\n",
		pool.Config().ConnString())
	mean := publisher.Kind{Name: "mean", Open: func(s publisher.Settings) (publisher.Sink, error) {
		var settings struct {
			Way string `yaml:"way"`
		}
		err := s.Decode(&settings)
		return &meanSink{way: settings.Way}, err
	}}
	applied := map[string][]string{
		"filed": {"twice", "checked", "cast", "json", "at", "long", "raised"},
		"handled": {
			"quoted", "plain", "wrapped", "cut", "shouted", "escaped", "permanent", "panics", "dies", "number", "decoded",
			"queued", "unencoded", "committed",
		},
		"folded": {"folded"}, "skipped": {"passed"}, "shaky": {"shaken", "disturbed"},
	}
	ways := slices.Concat(slices.Collect(maps.Values(applied))...)
	slices.Sort(ways)
	for _, way := range ways {
		value := func(of string) string { return fmt.Sprintf("%s-%s %s&<%d>", planted, of, way, 48151623) }
		e := event.Event{
			Type: way,
			Payload: document(t, map[string]any{
				"name": value("name"), "more": []any{map[string]any{value("key"): 48151623}},
			}),
			Metadata: document(t, map[string]any{"by": value("by")}),
			Tags:     []string{"card=" + value("tag"), planted + "-tag"},
		}
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, "c-"+way, journal.Any, e)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	w := plantedWorker(t, pool, Options{
		Name: "worker", Projections: plantedHandlers(), Sinks: append(sinks.Kinds(), mean),
	},
		"--projections-dir", filepath.Join(dir, "projections"), "--publishers", write("publishers.yaml", text),
		"--retry-base", "1ms", "--retry-max", "5ms", "--retry-attempts", "2")

	// Everything that must fail has failed.
	w.until(t, `SELECT count(DISTINCT campaign_id) >= $1 FROM tidemark.failure_log`, len(ways)-2)
	w.until(t, `SELECT count(*) FILTER (WHERE last_error <> ''
			OR EXISTS (SELECT FROM tidemark.parked k WHERE k.publisher = p.publisher)) >= $1
		FROM tidemark.readers p`, publishers)
	w.until(t, `SELECT (SELECT count(*) FROM shaky) = 1
		AND NOT EXISTS (SELECT FROM tidemark.failed WHERE status = 'failed' AND projection <> 'folded')`)
	if !strings.Contains(w.log.String(), "waits for the infrastructure") ||
		!strings.Contains(w.log.String(), "isolating the cause") {
		t.Error("no projection has waited, or no group has failed")
	}

	// Acts of operators fail too, and their responses are checked as well.
	for _, projection := range []string{"filed", "handled", "folded", "skipped"} {
		w.post(t, "/api/v1/projections/"+projection+"/verify", `{}`)
		w.post(t, "/api/v1/projections/"+projection+"/rebuild", `{}`)
		for _, way := range slices.Concat(applied[projection], applied["shaky"][:1]) { // and one that it does not apply
			w.get(t, auth.Admin, "/api/v1/campaigns/c-"+way+"/verify?projection="+projection)
			w.get(t, auth.Admin, "/api/v1/campaigns/c-"+way+"/asof?seq=1&projection="+projection)
			w.get(t, auth.Admin, "/api/v1/campaigns/c-"+way+"/diff?to=1&projection="+projection)
			w.get(t, auth.Admin, "/api/v1/campaigns/c-"+way+"/why?projection="+projection+"&key=")
		}
	}
	for _, way := range ways {
		w.get(t, auth.Admin, "/campaign?id=c-"+way+"&then=1")
	}
	for _, name := range []string{"hook400", "hook422-cut", "mean-whole", "mean-none", "mean-panics", "rows"} {
		w.post(t, "/api/v1/publishers/all/"+name+"/replay", `{"campaign": "c-cast", "from": 1}`)
	}
	w.until(t, `SELECT NOT EXISTS (
		SELECT FROM tidemark.operations WHERE state IN ('pending', 'running') AND kind <> 'republish')`)

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
