package projector_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestAnSQLFileAppliesItsStatementsInOrder(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	projections, err := sqlfile.LoadDir(os.DirFS("testdata/sqlfile"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		campaign := fmt.Sprint("c", i)
		appendEvents(t, pool, campaign,
			event.Event{
				Type: "session_started", Payload: json.RawMessage(`{"session_id": "s1"}`), Actor: "ann",
				Tags: []string{"weekly"},
			},
			event.Event{Type: "something_else"},
			event.Event{Type: "session_ended", Payload: json.RawMessage(`{"session_id": "s1"}`)},
			event.Event{Type: "session_started", Payload: json.RawMessage(`{"session_id": "s2"}`)},
			event.Event{Type: "session_aborted", Payload: json.RawMessage(`{"session_id": "s2"}`)},
			event.Event{Type: "session_started", Payload: json.RawMessage(`{"session_id": "s3"}`)},
		)
	}
	if _, err := newProjector(t, pool, projections...).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	assertNothingFailed(t, pool)
	if n := query[int](t, pool, `SELECT count(*) FROM session_counts WHERE started = 3 AND ended = 2`); n != 20 {
		t.Errorf("%d campaigns have the right counts, want 20", n)
	}
	const want = `s1 ann {weekly} ended, s2 - {} aborted, s3 - {} -`
	got := query[string](t, pool, `SELECT string_agg(concat_ws(' ', session_id, coalesce(host, '-'), tags,
		coalesce(outcome, '-')), ', ' ORDER BY session_id)
		FROM sessions WHERE campaign_id = 'c7'`)
	if got != want {
		t.Errorf("got sessions %q, want %q", got, want)
	}
}

func TestAnSQLFileSeesEveryFieldAsItIsInTheJournal(t *testing.T) {
	t.Parallel()
	projection, err := sqlfile.Load(fstest.MapFS{"copies.sql": {Data: []byte(`-- projection: copies
-- version: 1
CREATE TABLE copies (campaign_id text, seq bigint, position bigint, event_id uuid, event_type text, event_version int,
	aggregate_type text, aggregate_id text,
    actor text, tags text[], payload jsonb, metadata jsonb, occurred_at timestamptz, recorded_at timestamptz);
-- on: filled, bare
INSERT INTO copies VALUES (event.campaign_id, event.seq, event.position, event.event_id, event.event_type,
	event.event_version, event.aggregate_type,
    event.aggregate_id, event.actor, event.tags, event.payload, event.metadata, event.occurred_at, event.recorded_at);
`)}}, "copies.sql")
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, functions bool, mode pgx.QueryExecMode) {
		t.Helper()
		pool := pgtest.New(t)
		workers := inMode(t, pool, mode)
		appendEvents(t, pool, "c",
			event.Event{
				Type: "filled", ID: uuid.New(), Version: 3, AggregateType: "seat", AggregateID: "7", Actor: "ann",
				Tags:       []string{`a"b`, "c,d", "é"},
				Payload:    json.RawMessage(`{"n": 12345678901234567890.123, "s": "\u00e9\\", "z": null}`),
				Metadata:   json.RawMessage(`{"trace": "x"}`),
				OccurredAt: time.Date(1999, 12, 31, 23, 59, 59, 123456000, time.UTC),
			},
			event.Event{Type: "bare"},
		)
		drain(t, workerOf(t, workers, func(c *projector.Config) { c.NoFunctions = !functions }, projection))
		assertNothingFailed(t, pool)
		n := query[int](t, pool, `SELECT count(*) FROM copies c JOIN tidemark.journal j USING (campaign_id, seq)
		WHERE (c.position, c.event_id, c.event_type, c.event_version, c.payload, c.occurred_at, c.recorded_at)
			= (j.position, j.event_id, j.event_type, j.event_version, j.payload, j.occurred_at, j.recorded_at)
		AND c.aggregate_type IS NOT DISTINCT FROM j.aggregate_type AND c.aggregate_id IS NOT DISTINCT FROM j.aggregate_id
			AND c.actor IS NOT DISTINCT FROM j.actor
		AND c.tags = coalesce(j.tags, '{}') AND c.metadata = coalesce(j.metadata, '{}')`)
		if n != 2 {
			t.Errorf("%d of 2 events were copied as they are", n)
		}
	}
	t.Run("by_a_function", func(t *testing.T) {
		t.Parallel()
		run(t, true, pgx.QueryExecModeCacheStatement)
	})
	for _, mode := range execModes() {
		t.Run("by_statements,_sent_by_"+mode.String(), func(t *testing.T) {
			t.Parallel()
			run(t, false, mode)
		})
	}
}

func TestAnSQLFileThatFailsDefersItsCampaignAtTheEvent(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	projections, err := sqlfile.LoadDir(os.DirFS("testdata/sqlfile"))
	if err != nil {
		t.Fatal(err)
	}
	started := func(id string) event.Event {
		return event.Event{Type: "session_started", Payload: json.RawMessage(`{"session_id": "` + id + `"}`)}
	}
	appendEvents(t, pool, "good", started("s1"))
	appendEvents(t, pool, "bad", started("s1"), started("s2")) // two sessions started at once
	if _, err := newProjector(t, pool, projections...).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := query[string](t, pool, `SELECT campaign_id || next_seq || error_code
		FROM tidemark.failed`); s != "bad223505" {
		t.Errorf("failed: %s, want event 2 of campaign bad, a unique violation", s)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM sessions`); n != 2 {
		t.Errorf("%d sessions, want the first of each campaign", n)
	}
}

func TestRegisterRefusesAnSQLFileThatDoesNotFitItsTables(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	projection, err := sqlfile.Load(fstest.MapFS{"a.sql": {Data: []byte("-- projection: a\n-- version: 1\nCREATE TABLE " +
		"a (n int);\n-- on: x\nDELETE FROM a WHERE m = 1;")}}, "a.sql")
	if err != nil {
		t.Fatal(err)
	}
	err = newProjector(t, pool, projection).Register(t.Context())
	var mistake *sqlfile.Error
	if !errors.As(err, &mistake) || mistake.Line != 5 {
		t.Errorf("got %v, want a mistake in line 5", err)
	}
}

func appendEvents(t *testing.T, pool *pgxpool.Pool, campaign string, events ...event.Event) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any, events...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func assertNothingFailed(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if s := query[string](t, pool, `SELECT coalesce(string_agg(error_message, E'\n'), '')
		FROM tidemark.failed`); s != "" {
		t.Errorf("failed: %s", s)
	}
}
