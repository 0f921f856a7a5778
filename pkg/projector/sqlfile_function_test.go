package projector_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/rapidtest"
)

func TestAnSQLFileRunsAsAFunctionOfTheDatabase(t *testing.T) {
	t.Parallel()
	t.Run("which is what applies its events", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p := newProjector(t, pool, sums(t, `UPDATE sums SET n = n + 1 WHERE campaign_id = event.campaign_id;`))
		if err := p.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		replaceFunction(t, pool, `INSERT INTO sums VALUES ('the function was called', tidemark_event_until[1])`)
		appendEvents(t, pool, "c", event.Event{Type: "added"}, event.Event{Type: "ignored"})
		drain(t, p)
		if s := query[string](t, pool, `SELECT string_agg(campaign_id || ' ' || n, ', ')
			FROM sums`); s != "the function was called 2" {
			t.Errorf("the read model holds %q", s)
		}
		if n := query[int](t, pool, `SELECT checkpoint FROM tidemark.leases WHERE campaign_id = 'c'`); n != 2 {
			t.Errorf("the checkpoint is %d, want 2", n)
		}
	})
	t.Run("and statement by statement once the function is gone", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p, isolated := countingIsolations(t, pool, sums(t, addPayload))
		if err := p.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		exec(t, pool, "DROP FUNCTION "+function(t, pool))
		for range 2 {
			appendEvents(t, pool, "c", added("1"), added("2"))
			drain(t, p)
		}
		assertNothingFailed(t, pool)
		if n := isolated(); n != 1 {
			t.Errorf("%d groups failed, want the one that noticed", n)
		}
		if n := query[int](t, pool, `SELECT n FROM sums`); n != 6 {
			t.Errorf("the sum is %d, want 6", n)
		}
	})
	t.Run("also with statements that answer rows", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p, isolated := countingIsolations(t, pool, sums(t, `INSERT INTO sums VALUES (event.campaign_id, 1)
			ON CONFLICT (campaign_id) DO UPDATE SET n = sums.n + 1 RETURNING n;
			SELECT set_config('test.seen', event.event_type, false) FROM generate_series(1, 3);
			WITH a AS (UPDATE sums SET n = n * 10 WHERE campaign_id = event.campaign_id RETURNING n) SELECT n FROM a;
			WITH a AS (SELECT 5 AS n) UPDATE sums SET n = sums.n + a.n FROM a WHERE campaign_id = event.campaign_id;`))
		appendEvents(t, pool, "c", added("1"), added("2"))
		drain(t, p)
		function(t, pool)
		assertNothingFailed(t, pool)
		if n := query[int](t, pool, `SELECT n FROM sums`); n != 165 {
			t.Errorf("the result is %d, want 165", n)
		}
		if n := isolated(); n != 0 {
			t.Errorf("%d groups failed", n)
		}
	})
	t.Run("unless a statement is none for a function", func(t *testing.T) {
		t.Parallel()
		for _, statement := range []string{
			`INSERT INTO sums VALUES (event.campaign_id, (SELECT loop FROM (SELECT 3 AS loop) AS x)) RETURNING n AS loop;`,
			`INSERT INTO sums SELECT event.campaign_id, tidemark_event_seq FROM (SELECT 3 AS tidemark_event_seq) AS x;`,
		} {
			pool := pgtest.New(t)
			p := newProjector(t, pool, sums(t, statement))
			appendEvents(t, pool, "c", added("1"))
			drain(t, p)
			assertNothingFailed(t, pool)
			if n := query[int](t, pool, `SELECT n FROM sums`); n != 3 {
				t.Errorf("%s: the result is %d, want 3", statement, n)
			}
			if n := query[int](t, pool, `SELECT count(*) FROM pg_proc WHERE proname LIKE 'tidemark_sums%'`); n != 0 {
				t.Errorf("%s: it became a function", statement)
			}
		}
	})
	t.Run("unless the catalogue changes its events", func(t *testing.T) {
		t.Parallel()
		upcast := map[int]catalogue.Upcaster{1: catalogue.Remove("old")}
		for _, eventType := range []catalogue.EventType{
			{Name: "added", Aliases: []string{"plus"}},
			{Name: "added", Version: 2, Upcast: upcast},
		} {
			pool := pgtest.New(t)
			appendEvents(t, pool, "c", added("1"), event.Event{Type: "plus", Payload: json.RawMessage(`{"n": 5}`)},
				event.Event{Type: "added", Version: 2, Payload: json.RawMessage(`{"n": 7}`)})
			types, err := catalogue.New(eventType)
			if err != nil {
				t.Fatal(err)
			}
			p, err := projector.New(projector.Config{
				Pool: pool, Projections: []projection.Projection{sums(t, addPayload)},
				Catalogue: types,
			})
			if err != nil {
				t.Fatal(err)
			}
			drain(t, p)
			if n := query[int](t, pool, `SELECT count(*) FROM pg_proc WHERE proname LIKE 'tidemark_sums%'`); n != 0 {
				t.Errorf("%v: it became a function", eventType)
			}
			if n := query[int](t, pool, `SELECT n FROM sums`); n != 6 && n != 8 {
				t.Errorf("%v: the sum is %d, want 6 with the alias, 8 with the upcaster", eventType, n)
			}
		}
	})
	t.Run("which refuses a version that the catalogue does not know", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		newer := added("5")
		newer.Version = 2
		appendEvents(t, pool, "c", added("1"), added("2"), newer, added("9"))
		types, err := catalogue.New(catalogue.EventType{Name: "added"},
			catalogue.EventType{Name: "removed", Version: 2})
		if err != nil {
			t.Fatal(err)
		}
		p, err := projector.New(projector.Config{
			Pool: pool, Projections: []projection.Projection{sums(t, addPayload)},
			Catalogue: types,
		})
		if err != nil {
			t.Fatal(err)
		}
		drain(t, p)
		function(t, pool)
		if s := query[string](t, pool, `SELECT campaign_id || next_seq || error_message
			FROM tidemark.failed`); !strings.HasPrefix(s, "c3") || !strings.Contains(s, "version 2, the catalogue reads 1") {
			t.Errorf("failed: %s, want event 3 for its version", s)
		}
		if n := query[int](t, pool, `SELECT n FROM sums`); n != 3 {
			t.Errorf("the sum is %d, want that of the events before", n)
		}
	})
	t.Run("unless it is told not to", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p, err := projector.New(projector.Config{
			Pool: pool, Projections: []projection.Projection{sums(t, addPayload)},
			NoFunctions: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		appendEvents(t, pool, "c", added("1"))
		drain(t, p)
		if n := query[int](t, pool, `SELECT count(*) FROM pg_proc WHERE proname LIKE 'tidemark_sums%'`); n != 0 {
			t.Error("it became a function")
		}
	})
}

// TestAnSQLFileDoesTheSameAsAFunction applies random events with random statements in both ways and
// compares the results.
func TestAnSQLFileDoesTheSameAsAFunction(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const tables = `CREATE TABLE sums (campaign_id text COLLATE "C" NOT NULL, k text NOT NULL, n numeric NOT NULL,
		actor text, tags text[], at timestamptz, PRIMARY KEY (campaign_id, k));
		CREATE TABLE log (campaign_id text NOT NULL, seq bigint NOT NULL, part int NOT NULL, entry text,
			PRIMARY KEY (campaign_id, seq, part));
		CREATE TABLE changes (campaign_id text, kind text, n bigint, PRIMARY KEY (campaign_id, kind));
		CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO changes AS c SELECT DISTINCT campaign_id, TG_OP, 1 FROM touched
				ON CONFLICT (campaign_id, kind) DO UPDATE SET n = c.n + 1; RETURN NULL;
		END $$;
		CREATE TRIGGER inserted AFTER INSERT ON sums REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION
			noted();
		CREATE TRIGGER deleted AFTER DELETE ON sums REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION
			noted();`
	statements := []string{
		`INSERT INTO sums AS s VALUES (event.campaign_id, coalesce(event.payload->>'k', '-'),
			(event.payload->>'n')::numeric, event.actor, event.tags, event.occurred_at)
			ON CONFLICT (campaign_id, k) DO UPDATE SET n = s.n * 2 + excluded.n, actor = excluded.actor,
				tags = s.tags || excluded.tags`,
		`UPDATE sums SET n = n + event.seq, at = event.recorded_at WHERE campaign_id = event.campaign_id
			AND k > event.payload->>'k'`,
		`DELETE FROM sums WHERE campaign_id = event.campaign_id AND k = event.payload->>'k' AND n > 100`,
		`DELETE FROM sums WHERE campaign_id = event.campaign_id AND actor IS NOT DISTINCT FROM event.actor RETURNING k, n`,
		`INSERT INTO log SELECT event.campaign_id, event.seq, 1,
			concat_ws('|', event.event_type, event.event_version, event.aggregate_type, event.aggregate_id, event.actor,
			event.tags[1], cardinality(event.tags), event.payload, event.metadata->>'trace', event.position, event.event_id,
				event.occurred_at = event.recorded_at)`,
		`INSERT INTO log (campaign_id, seq, part, entry)
			SELECT s.campaign_id, event.seq, 2, string_agg(k || n, ',' ORDER BY k) FROM sums AS s
			WHERE s.campaign_id = event.campaign_id GROUP BY s.campaign_id`,
		`WITH gone AS (DELETE FROM log WHERE campaign_id = event.campaign_id AND seq < event.seq - 3 RETURNING seq)
			INSERT INTO log SELECT event.campaign_id, event.seq, 3, count(*)::text FROM gone -- ; a comment; with 'a quote`,
		`WITH seen AS (SELECT max(n) AS n FROM sums WHERE campaign_id = event.campaign_id) SELECT n, event.payload FROM seen`,
		`MERGE INTO sums AS s USING (SELECT event.campaign_id AS c, event.payload->>'k' AS k) AS e ON s.campaign_id = e.c AND s.k = e.k
			WHEN MATCHED AND s.n > 50 THEN DELETE WHEN MATCHED THEN UPDATE SET n = s.n + 7 WHEN NOT MATCHED THEN DO NOTHING`,
		`INSERT INTO log (campaign_id, seq, part, entry)
			VALUES (event.campaign_id, event.seq, 4, 'found; $$ ' || E'\'' || event.event_type)`,
	}
	turn := 0
	rapidtest.Check(t, 12, func(rt *rapid.T) { // each turn takes two schemas and many round trips
		turn++
		types := []string{"a", "b", "c", "it-s odd"}
		file := tables + "\n"
		for _, on := range [][]string{types[:1], types[1:3], types[3:]} {
			file += "-- on: " + strings.ReplaceAll(strings.Join(on, ", "), " odd", "_odd") + "\n"
			for _, s := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(statements)-1), 1, 4, rapid.ID[int]).Draw(rt,
				"statements") {
				file += statements[s] + "\n;\n"
			}
		}
		var ways [2]string // the result of each way
		var p [2]*projector.Projector
		for way := range p {
			name := fmt.Sprintf("way%d_%d", way, turn)
			exec(t, pool, `INSERT INTO tidemark.consumer_groups (name, state) VALUES ('`+name+`', 'ready')`)
			code, err := sqlfile.Load(fstest.MapFS{"a.sql": {Data: []byte("-- projection: " + name + "\n-- version: 1\n" +
				file)}}, "a.sql")
			if err != nil {
				rt.Fatal(err)
			}
			p[way], err = projector.New(projector.Config{
				Pool: pool, Projections: []projection.Projection{code}, ConsumerGroup: name, Schema: name,
				NoFunctions: way == 0, GroupEvents: 7, Concurrency: 2,
			})
			if err == nil {
				err = p[way].Register(t.Context())
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		campaigns := make([]string, rapid.IntRange(1, 4).Draw(rt, "campaigns"))
		for i := range campaigns {
			campaigns[i] = fmt.Sprintf("c%d %d", turn, i)
			appendEvents(t, pool, campaigns[i], rapid.SliceOfN(rapid.Custom(anEvent), 1, 12).Draw(rt, "events")...)
		}
		for way := range p {
			drain(t, p[way])
			ways[way] = left(t, pool, fmt.Sprintf("way%d_%d", way, turn))
			exec(t, pool, fmt.Sprintf(`DELETE FROM tidemark.consumer_groups WHERE name = 'way%d_%d'`, way, turn))
		}
		if n := query[int](t, pool, fmt.Sprintf(`SELECT count(*) FROM pg_proc
			WHERE proname LIKE 'tidemark_way1_%d_v1%%'`, turn)); n != 1 {
			rt.Fatal("it did not become a function")
		}
		if ways[0] != ways[1] {
			rt.Fatalf("statement by statement:\n%s\nas a function:\n%s\nof\n%s", ways[0], ways[1], file)
		}
	})
}

// anEvent draws an event. One in twenty has a payload that fails.
func anEvent(t *rapid.T) event.Event {
	text := rapid.SampledFrom([]string{"", "x", "é", "Z", "a'b\\"})
	e := event.Event{
		Type:    rapid.SampledFrom([]string{"a", "b", "c", "it-s_odd", "unknown"}).Draw(t, "type"),
		Version: rapid.IntRange(1, 3).Draw(t, "version"),
		Intent: rapid.SampledFrom([]event.Intent{"", "", "", event.ReplayOnly, event.AuditOnly}).Draw(t,
			"intent"),
		AggregateType: text.Draw(t, "aggregate type"), AggregateID: text.Draw(t, "aggregate"), Actor: text.Draw(t, "actor"),
		Tags: rapid.SampledFrom([][]string{nil, {"t"}, {`a"b`, "c,d"}}).Draw(t, "tags"),
	}
	n := rapid.SampledFrom([]string{"0", "1", "2.50", "-7", "40"}).Draw(t, "n")
	if rapid.IntRange(1, 20).Draw(t, "luck") == 20 {
		n = `"none"`
	}
	e.Payload = json.RawMessage(fmt.Sprintf(`{"k": %q, "n": %s, "deep": [null, {"a": 1e3}]}`,
		rapid.SampledFrom([]string{"a", "B", "é"}).Draw(t, "k"), n))
	if rapid.Bool().Draw(t, "metadata") {
		e.Metadata = json.RawMessage(`{"trace": "m"}`)
	}
	return e
}

// left returns the rows that a projection has written to its schema, and its checkpoints.
func left(t *testing.T, pool *pgxpool.Pool, name string) string {
	t.Helper()
	return query[string](t, pool, fmt.Sprintf(`SELECT concat_ws(E'\n',
		(SELECT string_agg(s::text, E'\n' ORDER BY campaign_id, k) FROM %[1]s.sums s),
		(SELECT string_agg(l::text, E'\n' ORDER BY campaign_id, seq, part) FROM %[1]s.log l),
		(SELECT string_agg(c::text, E'\n' ORDER BY campaign_id, kind) FROM %[1]s.changes c),
		(SELECT string_agg(concat_ws(' ', campaign_id, next_seq, status, error_code, error_message), E'\n'
			ORDER BY campaign_id) FROM tidemark.failed WHERE projection = '%[1]s'),
		(SELECT string_agg(concat_ws(' ', campaign_id, checkpoint), E'\n' ORDER BY campaign_id) FROM tidemark.leases
			WHERE consumer_group = '%[1]s'))`, name))
}

const addPayload = `INSERT INTO sums AS s VALUES (event.campaign_id, (event.payload->>'n')::int)
	ON CONFLICT (campaign_id) DO UPDATE SET n = s.n + excluded.n;`

func added(n string) event.Event {
	return event.Event{Type: "added", Payload: json.RawMessage(`{"n": ` + n + `, "old": ` + n + `}`)}
}

// countingIsolations returns a projector and a function that counts its failed groups.
func countingIsolations(
	t *testing.T, pool *pgxpool.Pool, code projection.Projection,
) (p *projector.Projector, isolated func() int) {
	t.Helper()
	var log lockedBuffer
	p, err := projector.New(projector.Config{
		Pool: pool, Projections: []projection.Projection{code},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, func() int { return strings.Count(log.String(), "isolating the cause") }
}

// lockedBuffer is a log that is safe for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	all strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// sums is a projection in an SQL file that runs statements on events of type added.
func sums(t *testing.T, statements string) projection.Projection {
	t.Helper()
	file := "-- projection: sums\n-- version: 1\nCREATE TABLE sums (campaign_id text PRIMARY KEY, n bigint);\n-- on: " +
		"added\n" + statements
	code, err := sqlfile.Load(fstest.MapFS{"sums.sql": {Data: []byte(file)}}, "sums.sql")
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// function returns the name of the one function that the projection was compiled to.
func function(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return query[string](t, pool, `SELECT oid::regprocedure::text FROM pg_proc WHERE proname LIKE 'tidemark_sums%'`)
}

func replaceFunction(t *testing.T, pool *pgxpool.Pool, statement string) {
	t.Helper()
	definition := query[string](t, pool, `SELECT pg_get_functiondef($1::regprocedure)`, function(t, pool))
	head, _, _ := strings.Cut(definition, "AS $function$")
	exec(t, pool, head+"AS $function$ BEGIN "+statement+"; END $function$")
}
