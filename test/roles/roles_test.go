package roles_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/inbox"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/waiter"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/program"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestAppender(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	_, err := in.admin.Exec(t.Context(), "INSERT INTO tidemark.consumer_groups (name, state) VALUES ('default', 'ready')")
	must(t, err)
	pool := in.as(t, "appender")
	for what, tx := range map[string]func(tx pgx.Tx) error{
		"Append": func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, "go", journal.None, newEvent("ann"))
			return err
		},
		"AppendAll": func(tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendAll(t.Context(), tx, journal.Batch{CampaignID: "a", Events: []event.Event{newEvent("ann")}},
				journal.Batch{CampaignID: "b", Events: []event.Event{newEvent("ben")}})
			return err
		},
		"append": func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT * FROM tidemark.append('sql', '[{"type": "noted", "tags": ["x"]}]', 0)`)
			return err
		},
		"AppendAt and Cancel": func(tx pgx.Tx) error {
			s, err := journal.Journal{}.AppendAt(t.Context(), tx, "at", time.Now(), newEvent("ann"))
			if err != nil {
				return err
			}
			if cancelled, err := journal.Cancel(t.Context(), tx, s.ID); !cancelled {
				return fmt.Errorf("not cancelled: %w", err)
			}
			_, err = tx.Exec(t.Context(), `SELECT tidemark.append_at('at', now(), '[{"type": "noted"}]')`)
			return err
		},
		"append_if": func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(),
				`SELECT * FROM tidemark.append_if('[{"campaign_id": "if", "events": [{"type": "named", "tags": ["name:x"]}]}]',
					'{"failIfEventsMatch": {"items": [{"types": ["named"], "tags": ["name:x"]}]}}')`)
			return err
		},
	} {
		if err := pgx.BeginFunc(t.Context(), pool, tx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func() { must(t, db.Close()) }()
	if _, err := db.ExecContext(t.Context(), `SELECT * FROM tidemark.append('database/sql',
		'[{"type": "noted"}]')`); err != nil {
		t.Error(err)
	}
	var events, items int
	must(t, in.admin.QueryRow(t.Context(),
		"SELECT (SELECT count(*) FROM tidemark.journal), (SELECT count(*) FROM tidemark.outbox)").Scan(&events, &items))
	if events != 6 || items != 6 {
		t.Errorf("%d events and %d work items, want 6 each", events, items)
	}
	_, err = pool.Exec(t.Context(), `SELECT * FROM tidemark.append('', '[{"type": "noted"}]')`)
	var bad *pgconn.PgError
	if !errors.As(err, &bad) || bad.Code != "TM004" {
		t.Errorf("what is wrong with an event is said all the same: %v", err)
	}
	waits(t, pool)
	refuses(t, pool,
		"SELECT FROM tidemark.journal", "SELECT payload FROM tidemark.journal",
		"INSERT INTO tidemark.outbox VALUES ('default', 'c', 1, now(), 1)",
		"SELECT nextval('tidemark.journal_position')", "SELECT tidemark.claim('default', 'me', '', 1, '30 s')",
		"SELECT tidemark.wake()", "DELETE FROM tidemark.outbox", "SELECT FROM tidemark.scheduled",
		"DELETE FROM tidemark.scheduled", fireScheduled, react,
		"CREATE TABLE tidemark.mine (n integer)", "CREATE SCHEMA mine", "SELECT FROM tidemark.tokens",
		"CREATE OR REPLACE FUNCTION tidemark.append_limits() RETURNS integer[] LANGUAGE sql RETURN ARRAY[1]")
}

// fireScheduled makes what is due.
const fireScheduled = `SELECT fired FROM tidemark.fire_scheduled(1, NULL, '-infinity', NULL, '{}', NULL, false)`

func TestWorkersAndPublishersMakeWhatAppendersScheduled(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	appender := in.as(t, "appender")
	for _, role := range []string{"worker", "publisher", "operator"} {
		_, err := appender.Exec(t.Context(), `SELECT tidemark.append_at($1, now(), '[{"type": "noted"}]')`, role)
		must(t, err)
		var fired, events int
		pool := in.as(t, role)
		must(t, pool.QueryRow(t.Context(), fireScheduled).Scan(&fired))
		must(t, in.admin.QueryRow(t.Context(), `SELECT count(*) FROM tidemark.journal WHERE campaign_id = $1`, role).Scan(&events))
		if fired != 1 || events != 1 {
			t.Errorf("%s makes %d appends, %d events", role, fired, events)
		}
		refuses(t, pool, fmt.Sprintf(react, "p", "p/k/t", "c"), `SELECT tidemark.cancel_scheduled(1)`,
			`SELECT tidemark.append_at('c', now(), '[]')`)
	}
	refuses(t, in.as(t, "reader"), fmt.Sprintf(react, "p", "p/k/t", "c"))
}

// react is a reaction of a process, with a timer.
const react = `SELECT tidemark.react('%s', ARRAY['%s'], ARRAY['%s'], ARRAY[now()], ARRAY['[{"type": "noted"}]'],
	ARRAY[NULL::bigint], ARRAY[NULL::text])`

// A process of a worker of its own reacts in its own name alone, and leaves the timers of others.
func TestProcessesReactInTheirName(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	process := func(name string) projection.Projection {
		return projection.Process[int]{
			Name: name, Version: 1, Types: []string{"hero_joined"},
			Key:  func(e event.Event) (string, error) { return e.CampaignID, nil },
			Fold: func(n *int, _ event.Event) error { *n++; return nil },
			React: []projection.Reaction[int]{
				projection.React("hero_joined", func(_ *int, _ event.Event, _ struct{}) ([]projection.Do, error) {
					return []projection.Do{{Campaign: "answers", Events: []event.Event{{Type: "noted"}}, Timer: "t", At: time.Now()}}, nil
				}),
			},
		}
	}
	run := func(pool *pgxpool.Pool, names ...string) error {
		cfg := projector.Config{Pool: pool, Schema: "tidemark_views"}
		for _, name := range names {
			cfg.Projections = append(cfg.Projections, process(name))
		}
		p, err := projector.New(cfg)
		must(t, err)
		_, err = p.Drain(t.Context())
		return err
	}
	if err := run(in.as(t, "worker"), "one"); err == nil || !strings.Contains(err.Error(), "tidemark_process") {
		t.Errorf("a worker runs a process: %v", err)
	}
	pool := in.as(t, "process")
	must(t, run(pool, "one", "two"))
	in.fill(t)
	must(t, run(pool, "one", "two"))
	count := func(sql string, args ...any) (n int) {
		t.Helper()
		must(t, in.admin.QueryRow(t.Context(), sql, args...).Scan(&n))
		return n
	}
	if n := count(`SELECT count(*) FROM tidemark.scheduled WHERE scheduled_by IN ('one', 'two') AND timer IS NOT NULL`); n != 2 {
		t.Fatalf("%d timers", n)
	}
	var timer string
	must(t, in.admin.QueryRow(t.Context(), `SELECT timer FROM tidemark.scheduled WHERE scheduled_by = 'two'`).Scan(&timer))
	_, err := pool.Exec(t.Context(), fmt.Sprintf(react, "one", timer, "c"))
	must(t, err)
	if n := count(`SELECT count(*) FROM tidemark.scheduled WHERE scheduled_by = 'two' AND campaign_id = 'answers'`); n != 1 {
		t.Error("process one has cancelled a timer of process two")
	}
	for _, stranger := range []string{"three", "", "hero"} {
		var refused *pgconn.PgError
		if _, err := pool.Exec(t.Context(), fmt.Sprintf(react, stranger, "t", "c")); !errors.As(err, &refused) ||
			refused.Code != "22023" || !strings.Contains(refused.Message, "not registered") {
			t.Errorf("a reaction of process %q: %v", stranger, err)
		}
	}
	_, err = pool.Exec(t.Context(), `SELECT tidemark.react(NULL, '{t}', '{c}', ARRAY[now()], '{"[]"}', '{1}', '{x}')`)
	if err == nil {
		t.Error("a reaction without a process")
	}
	must(t, in.admin.QueryRow(t.Context(), `SELECT fired FROM tidemark.fire_scheduled(10, NULL, '-infinity', 0, '{}', NULL, false)`).
		Scan(new(int)))
	if n := count(`SELECT count(*) FROM tidemark.journal WHERE event_type = 'noted'
		AND metadata ->> 'causation_process' = CASE WHEN campaign_id = 'c' THEN 'one' ELSE metadata ->> 'causation_process' END
		AND metadata ->> 'causation_process' IN ('one', 'two')`); n != 3 {
		t.Errorf("%d events name their process, want 3", n)
	}
	see := in.as(t, "reader")
	if _, err := see.Exec(t.Context(), `SELECT FROM tidemark_views.one`); err != nil {
		t.Errorf("a reader sees no state of a process: %v", err)
	}
}

// waits expects that an application may wait for projections.
func waits(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	w := waiter.New(pool, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	var unknown *waiter.NotAppliedError
	token := journal.Token{CampaignID: "elsewhere", Seq: 1, Position: 1}.String()
	if err := w.Wait(ctx, token, "scores"); !errors.As(err, &unknown) || unknown.Status != waiter.Unregistered {
		t.Errorf("an application waits for a projection: %v", err)
	}
	cancel()
	must(t, <-ended)
}

// Whatever an appender passes, sets or creates, events beyond the limits stay out of the journal.
func TestAppenderCannotSwitchChecksOff(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	pool := in.as(t, "appender")
	large := `{"type": "x", "payload": {"a": "' || repeat('x', 3 << 20) || '"}}`
	expands := `{"type": "x", "payload": {"a": [1' || repeat(',1e131000', 250) || ']}}`
	for kind, event := range map[string]string{
		"an empty type": `{"type": ""}`, "a scalar payload": `{"type": "x", "payload": 7}`, "3 MB": large,
		"numbers that expand":      expands,
		"a deep payload":           `{"type": "x", "payload": ' || repeat('{"a":', 200) || '1' || repeat('}', 200) || '}`,
		"metadata that are a list": `{"type": "x", "metadata": [1]}`,
	} {
		events := `('[` + event + `]')::jsonb`
		batches := `('[{"campaign_id": "c", "events": [` + event + `]}]')::jsonb`
		for way, sql := range map[string]string{
			"append":     `SELECT FROM tidemark.append('c', ` + events + `)`,
			"append_all": `SELECT FROM tidemark.append_all(` + batches + `)`,
			"append_at":  `SELECT FROM tidemark.append_at('c', now(), ` + events + `)`,
			"schedule":   `SELECT FROM tidemark.schedule('c', now(), ` + events + `)`,
			"append_if": `SELECT FROM tidemark.append_if(` +
				batches + `, '{"failIfEventsMatch": {"items": [{"types": ["never"]}]}}')`,
			"p_keep": `SELECT FROM tidemark.append_if(` +
				batches + `, '{"failIfEventsMatch": {"items": [{"types": ["never"]}]}}', true)`,
		} {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `SET LOCAL tidemark.max_payload_bytes = 100000000;
					SET LOCAL tidemark.limits = 'off'; SET LOCAL tidemark.checked = on;
					SET LOCAL plan_cache_mode = force_custom_plan;
						SET LOCAL search_path = pg_temp, public`, pgx.QueryExecModeSimpleProtocol)
				must(t, err)
				_, err = tx.Exec(t.Context(), sql)
				return err
			})
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.Code != "TM004" {
				t.Errorf("%s of %s: %.300v", way, kind, err)
			}
		}
	}
	refuses(t, pool, "UPDATE tidemark.limits SET payload_bytes = 67108864",
		"SELECT FROM tidemark.append_rows('c', '[]', NULL)", "SELECT FROM tidemark.append_all_rows('[]')",
		"SELECT FROM tidemark.append_rows_of_snapshot('c', '[]', NULL)",
		`SELECT FROM tidemark.append_scheduled('c', '[{"type": "x"}]')`, "SELECT FROM tidemark.check_event('c', 1, '{}')")
	for _, role := range []string{"worker", "publisher", "operator"} {
		refuses(t, in.as(t, role), "UPDATE tidemark.limits SET payload_bytes = 67108864", "DELETE FROM tidemark.limits",
			`SELECT FROM tidemark.append_rows('c', '[{"type": "x"}]', NULL)`,
			`SELECT FROM tidemark.append_scheduled('c', '[{"type": "x"}]')`,
			`SELECT tidemark.append_at('c', now(), '[{"type": "x"}]')`, "UPDATE tidemark.scheduled SET events = '[]'",
			`INSERT INTO tidemark.scheduled (campaign_id, due_at, attempt_at, events) VALUES ('c', now(), now(), '[{"type": "x"}]')`)
	}
	var events, parameters int
	must(t, in.admin.QueryRow(t.Context(), "SELECT count(*) FROM tidemark.journal").Scan(&events))
	must(t, in.admin.QueryRow(t.Context(), `SELECT count(*) FROM pg_proc, unnest(proargnames) AS a (name)
		WHERE pronamespace = 'tidemark'::regnamespace AND proname IN ('append', 'append_all', 'append_if')
			AND name IN ('p_checked', 'p_locked')`).Scan(&parameters))
	if events != 0 || parameters != 0 {
		t.Errorf("%d events are in the journal, %d parameters say that something is checked", events, parameters)
	}
}

// Readers wait for appends in flight, whatever the appender claims about the lock that makes them
// wait.
func TestAppenderCannotAppendBehindReaders(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	pool := in.as(t, "appender")
	for name, lie := range map[string]string{
		"nothing":                         `SELECT 1`,
		"that it holds the floor":         `SELECT set_config('tidemark.floor_holder', pg_current_xact_id()::text, true)`,
		"that the floor is far away":      `SELECT set_config('tidemark.floor', '281474976710655', true)`,
		"that it is below nothing":        `SELECT set_config('tidemark.floor', '-1', true)`,
		"what it has seen in a savepoint": "",
	} {
		must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT * FROM tidemark.append('before', '[{"type": "noted"}]')`)
			return err
		}))
		tx, err := pool.Begin(t.Context())
		must(t, err)
		if lie == "" {
			must(t, forgeFromSavepoint(t, tx))
		} else {
			_, err = tx.Exec(t.Context(), lie)
			must(t, err)
		}
		var mine int64
		must(t, tx.QueryRow(t.Context(), `SELECT "position" FROM tidemark.append('open', '[{"type": "noted"}]')`).Scan(&mine))
		must(t, pgx.BeginFunc(t.Context(), pool, func(other pgx.Tx) error { // by another session, later and committed
			_, err := other.Exec(t.Context(), `SELECT * FROM tidemark.append('after', '[{"type": "noted"}]')`)
			return err
		}))
		floor, err := feed.Floor(t.Context(), in.admin)
		must(t, err)
		if floor >= mine {
			t.Errorf("an appender that says %s: readers go on to position %d while it appends at %d", name, floor, mine)
		}
		must(t, tx.Commit(t.Context()))
		if floor, err = feed.Floor(t.Context(), in.admin); err != nil || floor <= mine {
			t.Errorf("once it has said %s and committed, readers go on to position %d, %v", name, floor, err)
		}
	}
}

// forgeFromSavepoint appends in a savepoint, reads the settings, rolls back, and sets them again.
func forgeFromSavepoint(t *testing.T, tx pgx.Tx) error {
	t.Helper()
	savepoint, err := tx.Begin(t.Context())
	if err != nil {
		return err
	}
	if _, err := savepoint.Exec(t.Context(), `SELECT * FROM tidemark.append('seen', '[{"type": "noted"}]')`); err != nil {
		return err
	}
	var floor, holder string
	if err := savepoint.QueryRow(t.Context(), `SELECT coalesce(current_setting('tidemark.floor', true), ''),
		coalesce(current_setting('tidemark.floor_holder', true), '')`).Scan(&floor, &holder); err != nil {
		return err
	}
	if err := savepoint.Rollback(t.Context()); err != nil {
		return err
	}
	_, err = tx.Exec(t.Context(), `SELECT set_config('tidemark.floor', $1, true),
		set_config('tidemark.floor_holder', $2, true)`, floor, holder)
	return err
}

// An application appends, decides, reads events and read models, waits and keeps an inbox, and does nothing else.
func TestApplicationsThatReadAndConsume(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	in.fill(t)
	everything := event.Query{Items: []event.Item{{Types: []string{"hero_joined"}}, {Tags: []string{"x", "y"}}}}
	decide := func(pool *pgxpool.Pool) error {
		_, condition, err := journal.Decide(t.Context(), pool, everything,
			func(n *int, _ event.Event) error { *n++; return nil })
		if err != nil {
			return err
		}
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendIf(t.Context(), tx, []event.Event{{CampaignID: "d", Type: "decided"}}, condition)
			return err
		})
	}
	if decide(in.as(t, "appender")) == nil {
		t.Error("an appender may read")
	}
	pool := in.as(t, "application")
	must(t, decide(pool))
	_, err := worker(t, in.as(t, "worker"), 1).Drain(t.Context())
	must(t, err)
	for _, sql := range []string{
		`SELECT FROM tidemark.read('{"items": [{"types": ["hero_joined"]}]}', 0, 10)`,
		"SELECT FROM tidemark.append('c', '[{\"type\": \"noted\"}]')",
		"SELECT FROM tidemark.applied('{c}', '{1}', '{1}', '{}')", "SELECT tidemark.history()",
		"SELECT FROM tidemark_views.hashed",
	} {
		_, err := pool.Exec(t.Context(), sql)
		must(t, err)
	}
	refuses(t, pool, "DELETE FROM tidemark.journal", "INSERT INTO tidemark.outbox DEFAULT VALUES",
		"UPDATE tidemark.leases SET checkpoint = 0", "SELECT FROM tidemark.failed", "SELECT FROM tidemark.tokens",
		"SELECT FROM tidemark.erasure_secret", "DELETE FROM tidemark.keys", "CREATE TABLE tidemark_views.x ()",
		"SELECT FROM tidemark.operator_log", "CREATE SCHEMA mine")
	store, err := archive.NewFolder(t.TempDir())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	operator := in.as(t, "operator")
	for _, db := range []event.Querier{pool, archive.NewReader(store, 0).Reading(pool)} {
		read := 0
		for _, err := range journal.ReadAll(t.Context(), db, 0) {
			must(t, err)
			read++
		}
		if read != 4 {
			t.Errorf("read %d events", read)
		}
		r := archive.Request{Campaigns: []string{"c"}, By: "anna", Reason: "a test"}
		_, err := archive.Run(t.Context(), operator, store, r)
		must(t, err)
	}
	must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := inbox.CheckAndMark(t.Context(), tx, "billing", "oak", uuid.New())
		return err
	}))
	once := journal.Command{CampaignID: "d", ID: uuid.New(), Content: []byte("x")}
	for repeated := range 2 {
		out, err := journal.Journal{}.Do(t.Context(), pool, once, func(context.Context, pgx.Tx) (journal.Decision, error) {
			return journal.Decision{Events: []event.Event{{Type: "decided"}}}, nil
		})
		if err != nil || out.Repeated != (repeated == 1) {
			t.Errorf("%+v, %v", out, err)
		}
	}
}

// Objects in the caller's search path are never found by the owner's functions.
func TestAppenderCannotPutFunctionsInTheWay(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	_, err := in.admin.Exec(t.Context(), fmt.Sprintf("CREATE SCHEMA trap AUTHORIZATION %s_appender", in.prefix))
	must(t, err)
	conn, err := in.as(t, "appender").Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), `
		CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz
			LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'caught as %', current_user; END $$;
		GRANT USAGE ON SCHEMA trap TO PUBLIC;
		SET search_path = trap, pg_catalog;`, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	if _, err := conn.Exec(t.Context(), `SELECT * FROM tidemark.append('c', '[{"type": "noted"}]')`); err != nil {
		t.Error(err)
	}
}

func TestWorkerAndReader(t *testing.T) {
	t.Parallel()
	in := install(t, false) // migrated by a superuser; roles.sql makes the owner its owner
	in.fill(t)
	pool := in.as(t, "worker")
	n, err := worker(t, pool, 1).Drain(t.Context())
	must(t, err)
	if n == 0 {
		t.Error("nothing was applied")
	}
	if checked := worker(t, pool, 1).Check(t.Context()); checked != nil {
		t.Error(checked)
	}
	if _, err := worker(t, pool, 1).AsOf(t.Context(), "counted", "c", 1); err != nil {
		t.Errorf("the campaign as it was: %v", err)
	}
	refuses(t, pool,
		`SELECT * FROM tidemark.append('c',
			'[{"type": "noted"}]')`, `SELECT * FROM tidemark.append_all('[]')`, `SELECT * FROM tidemark.append_if('[]', '{}')`,
		"INSERT INTO tidemark.journal SELECT * FROM tidemark.journal", "UPDATE tidemark.journal SET payload = '{}'",
		"DELETE FROM tidemark.event_tags",
		"SELECT setval('tidemark.journal_position', 1)", "ALTER TABLE tidemark.journal DISABLE TRIGGER ALL",
		"DROP TABLE tidemark.outbox", "CREATE TABLE tidemark.mine (n integer)",
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)")

	reader := in.as(t, "reader")
	see := func(want string) {
		t.Helper()
		var doc string
		if err := reader.QueryRow(t.Context(),
			"SELECT doc::text FROM tidemark_views.counted WHERE campaign_id = 'c'").Scan(&doc); err != nil || doc != want {
			t.Errorf("the reader sees %q (%v), want %q", doc, err, want)
		}
	}
	see("2")
	if _, err := reader.Exec(t.Context(), "SELECT FROM tidemark_views.hashed"); err != nil {
		t.Error(err)
	}
	refuses(t, reader, "SELECT FROM tidemark.journal", "SELECT FROM tidemark.failed", "SELECT FROM tidemark.outbox",
		"DELETE FROM tidemark_views.counted", "CREATE TABLE mine (n integer)",
		`SELECT * FROM tidemark.append('c', '[{"type": "noted"}]')`)

	// A rebuild replaces tables: the worker may do it, and the reader still sees them.
	_, err = worker(t, pool, 2).Drain(t.Context())
	must(t, err)
	var version int
	must(t, in.admin.QueryRow(t.Context(),
		"SELECT version FROM tidemark.projections WHERE name = 'counted'").Scan(&version))
	if version != 2 {
		t.Errorf("after the rebuild the version is %d", version)
	}
	see("2")
	rollBack(t, in.as(t, "operator"), pool, "counted")
	see("2")
}

func TestTheDoctorJudgesByTheRoleThatItRunsAs(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	_, err := in.admin.Exec(t.Context(), fmt.Sprintf(`GRANT USAGE ON SCHEMA tidemark TO %[1]s;
		GRANT SELECT ON ALL TABLES IN SCHEMA tidemark TO %[1]s; GRANT SELECT ON goose_db_version TO %[1]s`,
		in.prefix+"_reader"), pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	for role, want := range map[string]string{
		"worker": "all that workers need", "process": "all that workers need", "operator": "all that workers need",
		"publisher": "all that publishers need", "reader": "a role that appends or reads",
	} {
		findings, err := doctor.Run(t.Context(), in.as(t, role), doctor.Options{})
		must(t, err)
		i := slices.IndexFunc(findings, func(f doctor.Finding) bool { return f.Check == "privileges" })
		if i < 0 {
			t.Fatal(role, findings)
		}
		if got := findings[i].Detail; !strings.HasPrefix(got, want) {
			t.Errorf("to a %s the doctor says %q, want %q", role, got, want)
		}
	}
}

func TestOperatorActsThroughMaintenance(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	in.fill(t)
	_, err := worker(t, in.as(t, "worker"), 1).Drain(t.Context())
	must(t, err)
	_, err = in.admin.Exec(t.Context(),
		"INSERT INTO tidemark.readers (topic, publisher, position) VALUES ('all', 'it', 0)")
	must(t, err)
	tool, err := program.Build(t.Context(), "cmd/tidemark")
	must(t, err)
	operator := in.login(t, "operator")
	run := func(args string, may ...int) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), tool, strings.Fields(args)...)
		cmd.Env = append(os.Environ(), "TIDEMARK_DATABASE_URL="+operator)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil && !slices.Contains(may, cmd.ProcessState.ExitCode()) {
			t.Errorf("tidemark %s: %v\n%s%s", args, err, &stdout, &stderr)
		}
		return stdout.String()
	}
	for _, args := range []string{
		"lag", "outbox report", "failed stats", "campaign show c", "gaps detect", "projection list",
		"projection pause counted --reason test", "projection resume counted --reason test",
		"campaign replay c --projection counted --reason test --yes",
		"publisher list", "publisher pause it --topic all --reason test", "publisher resume it --topic all --reason test",
	} {
		run(args)
	}
	out := run("doctor --all", 1) // may report problems of the server
	if strings.Contains(out, "could not look") {
		t.Errorf("the doctor lacks a privilege:\n%s", out)
	}
	if out := run("events export"); !strings.Contains(out, `"hero_joined"`) {
		t.Errorf("an operator exports %.200s", out)
	}
	lines := filepath.Join(t.TempDir(), "events.ndjson")
	var before, after int
	count := func(n *int) { must(t, in.admin.QueryRow(t.Context(), "SELECT count(*) FROM tidemark.journal").Scan(n)) }
	count(&before)
	must(t, os.WriteFile(lines, []byte(`{"campaign_id": "new", "type": "noted"}`+"\n"), 0o600))
	run("events import "+lines, 1, 3, 4, 5, 6)
	if count(&after); before == 0 || after != before {
		t.Errorf("an operator has imported: %d events, %d before", after, before)
	}
	refuses(t, in.connect(t, operator), `SELECT * FROM tidemark.append('c',
		'[{"type": "noted"}]')`, "UPDATE tidemark.journal SET payload = '{}'", "DROP TABLE tidemark.journal",
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)")
}

func TestOwnerMigratesDownAndUpAgain(t *testing.T) {
	t.Parallel()
	in := install(t, false)
	in.apply(t) // once more, with nothing left to do
	owner := in.login(t, "owner")
	must(t, migrations.Down(t.Context(), owner, 0))
	must(t, migrations.Up(t.Context(), owner))
	// Workers may use the new objects at once, appenders once roles.sql has run again.
	if _, err := worker(t, in.as(t, "worker"), 1).Drain(t.Context()); err != nil {
		t.Errorf("a worker between the migration and roles.sql: %v", err)
	}
}
