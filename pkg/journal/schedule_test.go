package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// scheduleAt schedules in a transaction of its own.
func scheduleAt(
	ctx context.Context, pool *pgxpool.Pool, campaign string, due time.Time, events ...event.Event,
) (id int64, err error) {
	s, err := scheduleAll(ctx, pool, campaign, due, events...)
	return s.ID, err
}

// scheduleAll is scheduleAt with the whole answer.
func scheduleAll(
	ctx context.Context, pool *pgxpool.Pool, campaign string, due time.Time, events ...event.Event,
) (s journal.Scheduled, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		s, err = journal.Journal{}.AppendAt(ctx, tx, campaign, due, events...)
		return err
	})
	return s, err
}

// fireDue makes the due appends of a database, as a worker does.
func fireDue(t *testing.T, pool *pgxpool.Pool) (fired int64) {
	t.Helper()
	return query[int64](t, pool, `SELECT fired FROM tidemark.fire_scheduled(500, NULL, '-infinity', NULL, '{}', NULL, false)`)
}

func TestAppendAt(t *testing.T) {
	t.Parallel()
	t.Run("appends the events as Append does", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		cause := mustAppend(t, pool, "cause", event.Event{Type: "caused"})[0]
		ctx := journal.WithCause(t.Context(), event.Event{CampaignID: "cause", ID: cause.ID})
		id := uuid.New()
		if _, err := scheduleAt(ctx, pool, "a", time.Now().Add(-time.Minute), event.Event{
			ID: id, Type: "noted", Version: 3, Intent: event.ReplayOnly, AggregateType: "note", AggregateID: "7",
			Actor: "ada", Tags: []string{"x", "y=1"}, Payload: json.RawMessage(`{"a": 1}`),
			OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		}, event.Event{Type: "noted", Metadata: json.RawMessage(`{"m": 1}`)}); err != nil {
			t.Fatal(err)
		}
		second := query[string](t, pool, `SELECT events -> 1 ->> 'id' FROM tidemark.scheduled`)
		if n := fireDue(t, pool); n != 1 {
			t.Fatalf("%d appends are made", n)
		}
		var events []event.Event
		for e, err := range journal.ReadCampaign(t.Context(), pool, "a", 0) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		if len(events) != 2 {
			t.Fatalf("the campaign has %d events", len(events))
		}
		e := events[0]
		if got := fmt.Sprintln(e.ID == id, e.Type, e.Version, e.Intent, e.AggregateType, e.AggregateID, e.Actor, e.Tags,
			string(e.Payload), e.OccurredAt.UTC(), events[1].ID.String() == second, time.Since(events[1].OccurredAt) < time.Minute); got !=
			"true noted 3 replay_only note 7 ada [x y=1] {\"a\": 1} 2026-01-02 03:04:05 +0000 UTC true true\n" {
			t.Errorf("the events are %s", got)
		}
		for _, e := range events {
			if e.CausationID() == "" || e.CorrelationID() != e.CausationID() ||
				!strings.Contains(e.CausationID(), cause.ID.String()) {
				t.Errorf("the cause is %q", e.CausationID())
			}
		}
	})

	t.Run("is part of the caller's transaction", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		gone := errors.New("gone")
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := (journal.Journal{}).AppendAt(t.Context(), tx, "a", time.Time{}, event.Event{Type: "noted"}); err != nil {
				t.Fatal(err)
			}
			return gone
		}); !errors.Is(err, gone) {
			t.Fatal(err)
		}
		if n := fireDue(t, pool); n != 0 {
			t.Errorf("%d appends of a transaction that was rolled back are made", n)
		}
	})

	t.Run("takes no lock of the campaign", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		if _, err := (journal.Journal{}).AppendAt(t.Context(), tx, "a", time.Now(), event.Event{Type: "noted", Tags: []string{"x"}}); err != nil {
			t.Fatal(err)
		}
		if n := query[int](t, tx, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()`); n > 0 {
			t.Errorf("it holds %d advisory locks", n)
		}
		mustAppend(t, pool, "a", event.Event{Type: "meanwhile", Tags: []string{"x"}})
	})

	t.Run("obeys the catalogue", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		types, err := catalogue.New(catalogue.EventType{Name: "noted", Version: 2, Upcast: map[int]catalogue.Upcaster{1: catalogue.Remove("old")}})
		if err != nil {
			t.Fatal(err)
		}
		j := journal.Journal{Catalogue: types}
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := j.AppendAt(t.Context(), tx, "a", time.Time{}, event.Event{Type: "noted"})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		fireDue(t, pool)
		if v := query[int](t, pool, `SELECT event_version FROM tidemark.journal`); v != 2 {
			t.Errorf("the version is %d", v)
		}
		err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := j.AppendAt(t.Context(), tx, "a", time.Time{}, event.Event{Type: "noted", Version: 3})
			return err
		})
		if !invalid(err) {
			t.Errorf("a version that the catalogue does not know: %v", err)
		}
	})

	t.Run("refuses at once what cannot be appended", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		exec(t, pool, `UPDATE tidemark.limits SET events_per_call = 3, payload_bytes = 100`)
		one, id := []event.Event{{Type: "noted"}}, uuid.New()
		for name, c := range map[string]struct {
			campaign string
			due      time.Time
			events   []event.Event
			want     string
		}{
			"no events": {"a", time.Now(), nil, `append to campaign "a": events are none: schedule at least one`},
			"a due time after year 9999": {
				"a", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), one,
				`it must be in the years 1 to 9999`,
			},
			"too many events": {"a", time.Now(), noted(4), "4 events in one call, the limit is 3 (events_per_call of tidemark.limits)"},
			"no campaign":     {"", time.Now(), one, "it must have 1 to 256 bytes"},
			"a large payload": {
				"a", time.Now(),
				[]event.Event{{Type: "noted", Payload: json.RawMessage(`{"a": "` + strings.Repeat("x", 200) + `"}`)}},
				`events[0] ("noted") of campaign "a": payload has 209 bytes, the limit is 100 (payload_bytes of tidemark.limits): store the bulk elsewhere and append a reference`,
			},
			"no type":     {"a", time.Now(), []event.Event{{}}, `type is missing: name what happened`},
			"an id twice": {"a", time.Now(), []event.Event{{Type: "noted", ID: id}, {Type: "noted", ID: id}}, "two of its events have the same id"},
		} {
			if _, err := scheduleAt(t.Context(), pool, c.campaign, c.due, c.events...); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, expected %s", name, err, c.want)
			}
		}
		for call, want := range map[string]string{
			`'a', NULL, '[{"type": "noted"}]'`:                            "append to campaign a: due is NULL, it must be in the years 1 to 9999",
			`'a', 'infinity', '[{"type": "noted"}]'`:                      "append to campaign a: due is infinity, it must be in the years 1 to 9999",
			`'a', '-infinity', '[{"type": "noted"}]'`:                     "append to campaign a: due is -infinity, it must be in the years 1 to 9999",
			`'a', now(), '{}'`:                                            "the events are a JSON object, they must be an array of objects",
			`'a', now(), NULL::jsonb`:                                     "the events are a JSON null, they must be an array of objects",
			`'a', now(), '[{"type": "noted", "due": 1}]'`:                 "due is no field of an event",
			`'a', now(), '[{"type": "noted", "id": "x"}]'`:                "id is 'x', it must be a UUID",
			`'a', now(), '[{"type": "noted", "tags": "x"}]'`:              "tags must be an array of strings",
			`'a', now(), '[{"type": "noted", "tags": [["x"]]}]'`:          "tags must be an array of strings",
			`'a', now(), '[{"type": "noted", "occurred_at": "no time"}]'`: "occurred_at is 'no time', it must be a time of RFC 3339",
			`'a', now(), '[{"type": "noted", "version": 0}]'`:             "version is 0, versions start at 1",
			`'a', now(), '[7]'`:                                           "event is a JSON number, it must be an object",
			`NULL, now(), '[{"type": "noted"}]'`:                          "campaign id NULL: it must have 1 to 256 bytes",
		} {
			_, err := pool.Exec(t.Context(), `SELECT tidemark.append_at(`+call+`)`)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("append_at(%s): %v, expected %s", call, err, want)
			}
		}
		if n := query[int](t, pool, `SELECT count(*) FROM tidemark.scheduled`); n != 0 {
			t.Errorf("%d refused appends are scheduled", n)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cancel := func(id int64) (cancelled bool) {
		t.Helper()
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
			cancelled, err = journal.Cancel(t.Context(), tx, id)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return cancelled
	}
	id, err := scheduleAt(t.Context(), pool, "a", time.Now(), event.Event{Type: "noted"})
	if err != nil {
		t.Fatal(err)
	}
	if !cancel(id) || cancel(id) {
		t.Error("an append is not cancelled, or twice")
	}
	if id, err = scheduleAt(t.Context(), pool, "a", time.Now(), event.Event{Type: "noted"}); err != nil {
		t.Fatal(err)
	}
	if fireDue(t, pool) != 1 || cancel(id) {
		t.Error("an append is cancelled that was made")
	}
	if cancel(-1) {
		t.Error("an append is cancelled that was never scheduled")
	}
}
