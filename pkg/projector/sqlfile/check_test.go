package sqlfile

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestCheckReportsWhatPostgresSaysWithTheLine(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tests := []struct {
		name, text string
		want       []string
	}{
		{
			"nothing wrong",
			sessionsHead + "-- on: x\nUPDATE sessions SET note = event.actor WHERE campaign_id = event.campaign_id;", nil,
		},
		{"unknown columns in several statements", sessionsHead + `-- on: x
UPDATE sessions
SET note = event.payload->>'é', -- ünïcode
    strated_at = event.occurred_at;
-- on: y, z
DELETE FROM session;`, []string{
			`s.sql:11: column "strated_at" of relation "sessions" does not exist`, `s.sql:13: relation "session" does not exist`,
		}},
		{
			"a value of the wrong type",
			sessionsHead + "-- on: x\nDELETE FROM sessions\nWHERE event\n.seq > 1 AND note\n= event.seq;",
			[]string{
				`s.sql:12: operator does not exist: text = bigint (No operator matches the given name and argument types. You might need to add explicit type casts)`,
			},
		},
		{
			"a table that cannot be made",
			"-- projection: s\n-- version: 1\nCREATE TABLE s (\n  a text,\n  b txet\n);\n-- on: x\nDELETE FROM missing",
			[]string{`s.sql:5: type "txet" does not exist`},
		},
		{
			"bad syntax", sessionsHead + "-- on: x\nSELECT 1;\nDELETE FORM sessions;",
			[]string{`s.sql:10: syntax error at or near "FORM"`},
		},
		{"every field has its type", sessionsHead + `-- on: x
SELECT event.campaign_id || '', event.seq + 1, event.position + 1, event.event_id = gen_random_uuid(),
	event.event_type || '', event.event_version + 1,
    event.aggregate_type || '', event.aggregate_id || '', event.actor || '', cardinality(event.tags),
    	event.tags[1] || '', event.payload->>'a', event.metadata->>'a',
    event.occurred_at + interval '1 day', event.recorded_at - event.occurred_at;`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			projection, err := loadText(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return projection.Check(t.Context(), tx) })
			assertMistakes(t, err, tt.want)
			var pgErr *pgconn.PgError
			if err != nil && !errors.As(err, &pgErr) {
				t.Errorf("%v does not lead to what Postgres said", err)
			}
		})
	}
}

func TestCheckLeavesTheTransactionAsItWas(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	good, err := loadText(sessionsHead + "-- on: x\nSELECT 1;")
	if err != nil {
		t.Fatal(err)
	}
	bad, err := loadText(sessionsHead + "-- on: x\nSELECT strated_at FROM sessions;")
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := good.Check(t.Context(), tx); err != nil {
			t.Errorf("check: %v", err)
		}
		if err := bad.Check(t.Context(), tx); err == nil {
			t.Error("a statement on a column that is not there passed")
		}
		if err := good.Check(t.Context(), tx); err != nil {
			t.Errorf("check once more: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Errorf("commit after the checks: %v", err)
	}
	var left int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace
		WHERE nspname LIKE 'tidemark\_check%'`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != 0 {
		t.Errorf("%d scratch schemas are left", left)
	}
}

func TestCheckIgnoresTablesThatAreThereAlready(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `CREATE TABLE sessions (campaign_id text, of_an_older_version int)`); err != nil {
		t.Fatal(err)
	}
	projection, err := loadText(sessionsHead + "-- on: x\nSELECT note FROM sessions;\n-- on: y\nSELECT " +
		"of_an_older_version FROM sessions;")
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return projection.Check(t.Context(), tx) })
	assertMistakes(t, err, []string{`s.sql:11: column "of_an_older_version" does not exist`})
}

func TestCheckRefusesOwnTablesNamedWithASchema(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `CREATE SCHEMA app; CREATE TABLE app.sessions (campaign_id text);
		CREATE SCHEMA live; CREATE TABLE live.sessions (campaign_id text); CREATE TABLE live.other (sessions text)`,
		pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	projection, err := loadText(sessionsHead + "-- on: x\nINSERT INTO sessions SELECT a.sessions FROM live.other a\n" +
		"WHERE sessions IS DISTINCT FROM a.sessions;\n" +
		"INSERT INTO live.sessions SELECT 1 FROM Live.\"sessions\"\nJOIN app.sessions ON true;\n" +
		"SELECT 1 FROM sessions;")
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return projection.Check(t.Context(), tx) })
	const want = ": name the projection's own tables without a schema"
	assertMistakes(t, err, []string{"s.sql:11: app.sessions" + want, "s.sql:11: live.sessions" + want})
}

func TestCheckTellsAnInterruptionFromAMistake(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	projection, err := loadText(sessionsHead + "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60);\n-- on: " +
		"x\nSELECT 1;")
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return projection.Check(t.Context(), tx) })
	var mistake *Error
	if err == nil || errors.As(err, &mistake) {
		t.Errorf("got %v, want an error that blames no line", err)
	}
}
