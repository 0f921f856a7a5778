package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/pkg/sink/postgres"
	"github.com/tidemark-go/tidemark/test/sqltest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/proxy"
)

func TestMain(m *testing.M) { pgtest.Main(m, proxy.MayStay()...) }

func open(t *testing.T, cfg postgres.Config) *postgres.Sink {
	t.Helper()
	opened, err := postgres.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*postgres.Sink)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func events(campaign string, n int) (events []publisher.Event) {
	for i := range n {
		events = append(events, publisher.Event{Topic: "orders", Event: event.Event{
			ID: uuid.New(), Type: "noted", CampaignID: campaign, Seq: int64(i + 1), Position: int64(100 + i),
			Payload: []byte(`{}`),
		}})
	}
	return events
}

func TestPostgresKeepsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	for _, format := range []publisher.Format{
		publisher.FormatEnvelope, publisher.FormatRaw, publisher.FormatCloudEvents,
	} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			encoder := publisher.Encoder{Format: format}
			publishertest.Run(t, encoder, func(t *testing.T) publishertest.Target {
				db := newDatabase(t)
				return publishertest.Target{
					Sink:     open(t, postgres.Config{URL: db.url, Encoder: encoder}),
					Received: func(ctx context.Context) ([]publishertest.Received, error) { return db.read(ctx, "published_events") },
					Poison:   func(e *publisher.Event) { e.Payload = []byte(`{"half": `) },
					Stall:    db.stall,
					Stop:     db.stop,
				}
			})
		})
	}
}

func TestStatementsPrepare(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := open(t, postgres.Config{URL: db.url})
	if err := s.Publish(t.Context(), events("c", 1)); err != nil {
		t.Fatal(err)
	}
	sqltest.Prepare(t, db.pool, "published_events")
}

func TestABatchIsOneStatement(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := open(t, postgres.Config{URL: db.url})
	if err := s.Publish(t.Context(), events("first", 1)); err != nil {
		t.Fatal(err)
	}
	db.exec(`CREATE TABLE statements (n bigint);
		CREATE FUNCTION count_it() RETURNS trigger
			LANGUAGE plpgsql AS 'BEGIN INSERT INTO statements VALUES (1); RETURN NULL; END';
		CREATE TRIGGER count_it AFTER INSERT ON published_events FOR EACH STATEMENT EXECUTE FUNCTION count_it()`)
	if err := s.Publish(t.Context(), slices.Concat(events("a", 50), events("b", 50))); err != nil {
		t.Fatal(err)
	}
	var statements, rows int
	if err := db.pool.QueryRow(t.Context(),
		"SELECT (SELECT count(*) FROM statements), (SELECT count(*) FROM published_events)").Scan(&statements,
		&rows); err != nil {
		t.Fatal(err)
	}
	if statements != 1 || rows != 101 {
		t.Errorf("%d statements brought %d rows", statements, rows)
	}
}

func TestAnEventThatIsSentAgainIsThereOnce(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := open(t, postgres.Config{URL: db.url})
	batch := events("c", 3)
	for _, part := range [][]publisher.Event{batch[:2], batch, batch} {
		if err := s.Publish(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	var text string
	row := db.pool.QueryRow(t.Context(), `SELECT string_agg(concat_ws(' ', topic, event_type, campaign_id, seq, position,
		attributes->>'event_type', body->>'version'), ', ' ORDER BY arrival)
		FROM published_events`)
	if err := row.Scan(&text); err != nil {
		t.Fatal(err)
	}
	if want := "orders noted c 1 100 noted 0, orders noted c 2 101 noted 0, orders noted c 3 102 noted 0"; text != want {
		t.Errorf("the table holds %s, want %s", text, want)
	}
}

func TestAMissingTableIsCreatedOnceHoweverManyNeedIt(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.exec(`CREATE SCHEMA "Out"`)
	var g errgroup.Group
	for i := range 6 {
		s := open(t, postgres.Config{URL: db.url, Table: "Out.events"})
		g.Go(func() error { return s.Publish(t.Context(), events(fmt.Sprint(i), 2)) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if received, err := db.read(t.Context(), `"Out".events`); err != nil || len(received) != 12 {
		t.Errorf("the table has %d events, %v", len(received), err)
	}
}

func TestATableOfOnesOwnMayRefuseEvents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rule      string
		permanent bool
	}{
		"constraint": {`ALTER TABLE published_events ADD CHECK (seq <> 2)`, true},
		"trigger": {`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not today''; END';
			CREATE TRIGGER refuse BEFORE INSERT ON published_events FOR EACH ROW
				WHEN (NEW.seq = 2) EXECUTE FUNCTION refuse()`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			s := open(t, postgres.Config{URL: db.url})
			if err := s.Publish(t.Context(), events("before", 1)); err != nil {
				t.Fatal(err)
			}
			db.exec(test.rule)
			err := s.Publish(t.Context(), slices.Concat(events("a", 3), events("b", 1)))
			var batch *publisher.BatchError
			if !errors.As(err, &batch) || len(batch.Failures) != 2 {
				t.Fatalf("got %v", err)
			}
			if first, second := batch.Failures[0], batch.Failures[1]; first.Index != 1 || first.Permanent != test.permanent ||
				second.Index != 2 || !errors.Is(second.Err, publisher.ErrNotTried) {
				t.Errorf("the failures are %+v", batch.Failures)
			}
		})
	}
}

func TestATableThatCannotBeUsedIsAnErrorOfTheSink(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		setUp, want string
		cfg         postgres.Config
	}{
		"no schema": {"", `create its schema`, postgres.Config{Table: "nowhere.events"}},
		"other columns": {
			"CREATE TABLE published_events (event_id uuid PRIMARY KEY)", `docs/reference/sinks.md`,
			postgres.Config{},
		},
		"only the id is unique": {
			"CREATE TABLE published_events (event_id uuid PRIMARY KEY, topic text, event_type text, campaign_id text, seq " +
				"bigint, position bigint, created_at timestamptz, attributes jsonb, body json)",
			`campaign_id and event_id together must be the primary key or unique`,
			postgres.Config{},
		},
		"nothing unique": {
			"CREATE TABLE published_events (event_id uuid, topic text, event_type text, campaign_id text, " +
				"seq bigint, position bigint, created_at timestamptz, attributes jsonb, body json)",
			`campaign_id and event_id together must be the primary key or unique`,
			postgres.Config{},
		},
		"read-only":       {"", `read-only`, postgres.Config{}},
		"wrong parameter": {"", `no_such_setting`, postgres.Config{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			if test.setUp != "" {
				db.exec(test.setUp)
			}
			test.cfg.URL = db.url
			switch name {
			case "read-only":
				test.cfg.URL = pgtest.With(test.cfg.URL, "default_transaction_read_only", "on")
			case "wrong parameter":
				test.cfg.URL = pgtest.With(test.cfg.URL, "no_such_setting", "1")
			}
			s := open(t, test.cfg)
			err := s.Publish(t.Context(), events("c", 2))
			var batch *publisher.BatchError
			if err == nil || errors.As(err, &batch) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if mark := fmt.Sprintf("%T", publisher.Outage(errors.New("down"))); name != "wrong parameter" &&
				fmt.Sprintf("%T", err) != mark {
				t.Errorf("%v is not marked as no event's fault", err)
			}
			if err := s.Healthy(t.Context()); (err != nil) != strings.HasPrefix(test.want, "read-only") &&
				name != "wrong parameter" {
				t.Errorf("its health is %v", err)
			}
		})
	}
}

func openURL(t *testing.T, address string) error {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Kind().Open(publisher.Settings{Publisher: "copy", URL: u, Decode: func(any) error { return nil }})
	if err == nil {
		return s.(*postgres.Sink).Close()
	}
	return err
}

func TestTheURLNamesTableAndConnection(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	u, err := url.Parse(pgtest.With(pgtest.With(pgtest.With(db.url, "table", "copy"), "pool_max_conns", "2"),
		"application_name", "somebody"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Kind().Open(publisher.Settings{Publisher: "copies", URL: u, Decode: func(any) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.(*postgres.Sink).Close() })
	if err := s.Publish(t.Context(), events("c", 2)); err != nil {
		t.Fatal(err)
	}
	var name string
	if err := db.pool.QueryRow(t.Context(),
		"SELECT max(application_name) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%INSERT "+
			"INTO \"copy\"%ON CONFLICT%' AND pid <> pg_backend_pid()").Scan(&name); err != nil || name != "somebody" {
		t.Errorf("the connection is %q, %v", name, err)
	}
	if received, err := db.read(t.Context(), "copy"); err != nil || len(received) != 2 || s.Name() != "copies" {
		t.Errorf("%s has published %d events, %v", s.Name(), len(received), err)
	}
}

func TestBadSettingsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"postgres://u@h/d?table=a.b.c":                      `table is "a.b.c": write table or schema.table`,
		"postgres://u@h/d?pool_max_conns=many":              "pool_max_conns",
		"postgres://u:secret@h:5432/d?sslmode=encouraged":   "sslmode is invalid",
		"postgres://u@h/d?table=" + strings.Repeat("x", 64): "each of 1 to 63 bytes",
	} {
		if err := openURL(t, address); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", address, err)
		}
	}
	if _, err := postgres.New(postgres.Config{Encoder: publisher.Encoder{Format: "xml"}}); err == nil ||
		!strings.Contains(err.Error(), "url is missing") || !strings.Contains(err.Error(), `"xml"`) {
		t.Errorf("got %v", err)
	}
	if err := openURL(t, "postgresql://u:p@127.0.0.1:1/d"); err != nil {
		t.Errorf("a database that is not there is no bad setting: %v", err)
	}
}
