package journal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// appendTo appends in a transaction of its own.
func appendTo(
	ctx context.Context, pool *pgxpool.Pool, campaign string, expect journal.Expect, events ...event.Event,
) (places []journal.Appended, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		places, err = journal.Journal{}.Append(ctx, tx, campaign, expect, events...)
		return err
	})
	return places, err
}

// mustAppend appends like appendTo and fails the test on an error.
func mustAppend(t *testing.T, pool *pgxpool.Pool, campaign string, events ...event.Event) []journal.Appended {
	t.Helper()
	places, err := appendTo(t.Context(), pool, campaign, journal.Any, events...)
	if err != nil {
		t.Fatal(err)
	}
	return places
}

// query returns the value of a query with one row and one column.
func query[T any](t *testing.T, db event.Querier, sql string, args ...any) T {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// exec runs a statement that must succeed.
func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// noted returns n events without ids.
func noted(n int) []event.Event {
	return slices.Repeat([]event.Event{{Type: "noted"}}, n)
}

// invalid reports whether err is an InvalidEventError.
func invalid(err error) bool {
	_, ok := errors.AsType[*journal.InvalidEventError](err)
	return ok
}

func isConflict(err error, campaign string, expected, actual int64) bool {
	return errors.Is(err, journal.ErrVersionConflict) && strings.HasPrefix(err.Error(),
		fmt.Sprintf("campaign %q is at seq %d, the append expects it at %d: ", campaign, actual, expected))
}

func TestAppendChecksWhatTheCallerExpects(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "INSERT INTO tidemark.consumer_groups (name) VALUES ('g')")
	for i, step := range []struct {
		expect   journal.Expect
		events   int
		conflict bool
		expected int64
		head     int64 // after the step
	}{
		{journal.Exactly(1), 1, true, 1, 0},
		{journal.None, 2, false, 0, 2},
		{journal.None, 1, true, 0, 2},
		{journal.Exactly(1), 1, true, 1, 2},
		{journal.Exactly(3), 1, true, 3, 2},
		{journal.Exactly(2), 3, false, 0, 5},
		{journal.Any, 1, false, 0, 6},
		{journal.Exactly(0), 1, true, 0, 6},
		{journal.Exactly(-1), 1, true, -1, 6},
		{journal.Exactly(5), 2, true, 5, 6},
		{journal.Exactly(6), 1, false, 0, 7},
	} {
		places, err := appendTo(t.Context(), pool, "c", step.expect, noted(step.events)...)
		switch {
		case step.conflict && !isConflict(err, "c", step.expected, step.head):
			t.Errorf("step %d: got %v", i, err)
		case !step.conflict && (err != nil || len(places) != step.events || places[len(places)-1].Seq != step.head):
			t.Fatalf("step %d: got %+v, %v", i, places, err)
		}
		stored := query[int64](t, pool, "SELECT count(*) FROM tidemark.journal")
		queued := query[int64](t, pool, "SELECT coalesce(sum(events), 0) FROM tidemark.outbox")
		numbered := query[int64](t, pool, "SELECT coalesce(pg_sequence_last_value('tidemark.journal_position'), 0)")
		if stored != step.head || queued != step.head || numbered != step.head {
			t.Fatalf("step %d: %d events, work for %d, and %d positions were given, want %d", i, stored, queued, numbered,
				step.head)
		}
	}
}

func TestAppendAllTakesEveryBatchOrNone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppend(t, pool, "b", noted(2)...)
	appendAll := func(expectB journal.Expect) (places []journal.Appended, err error) {
		err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			places, err = journal.Journal{}.AppendAll(t.Context(), tx,
				journal.Batch{CampaignID: "c", Expect: journal.None, Events: noted(2)},
				journal.Batch{CampaignID: "empty", Expect: journal.Exactly(9)},
				journal.Batch{CampaignID: "b", Expect: expectB, Events: noted(1)},
				journal.Batch{CampaignID: "c", Expect: journal.Exactly(2), Events: noted(1)},
			)
			return err
		})
		return places, err
	}
	if _, err := appendAll(journal.Exactly(1)); !isConflict(err, "b", 1, 2) {
		t.Fatalf("got %v", err)
	}
	if n := query[int64](t, pool, "SELECT count(*) FROM tidemark.journal"); n != 2 {
		t.Fatalf("the refused call wrote %d events", n-2)
	}
	places, err := appendAll(journal.Exactly(2))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range places {
		got = append(got, fmt.Sprint(p.CampaignID, p.Seq))
	}
	if want := []string{"c1", "c2", "b3", "c3"}; !slices.Equal(got, want) {
		t.Errorf("got places %v, want %v", got, want)
	}
}

func TestAppendMakesIdsThatAreSortableAndUnique(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	before := query[time.Time](t, pool, "SELECT clock_timestamp()").Truncate(time.Millisecond)
	var places []journal.Appended
	for range 3 {
		places = append(places, mustAppend(t, pool, "c", noted(10_000)...)...)
	}
	// 10,000 ids span more than two milliseconds.
	after := query[time.Time](t, pool, "SELECT clock_timestamp()").Add(10 * time.Millisecond)
	seen := make(map[uuid.UUID]bool, len(places))
	for i, p := range places {
		seconds, nanos := p.ID.Time().UnixTime()
		at := time.Unix(seconds, nanos)
		switch {
		case p.Seq != int64(i+1) || p.Duplicate:
			t.Fatalf("event %d got %+v", i, p)
		case p.ID.Version() != 7 || p.ID.Variant() != uuid.RFC4122:
			t.Fatalf("%s is version %s, variant %s", p.ID, p.ID.Version(), p.ID.Variant())
		case seen[p.ID]:
			t.Fatalf("%s was given twice", p.ID)
		case i%10_000 > 0 && bytes.Compare(places[i-1].ID[:], p.ID[:]) >= 0:
			t.Fatalf("%s of event %d does not sort after %s", p.ID, i, places[i-1].ID)
		case at.Before(before) || at.After(after):
			t.Fatalf("%s was made at %s, the call ran from %s to %s", p.ID, at, before, after)
		}
		seen[p.ID] = true
	}
}

func TestAppendKeepsEveryFieldOfAnEvent(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	full := event.Event{
		ID: uuid.New(), Type: "Gefundenes \"Fressen\"\n", Version: 3, Intent: event.AuditOnly, AggregateType: "character",
		AggregateID: "7\\",
		Actor:       "Åsa \u2028", Tags: []string{"a", "b=ç"}, Payload: json.RawMessage(`{"a": [1, {"b": "\u2713"}]}`),
		Metadata:   json.RawMessage(`{"trace": "x"}`),
		OccurredAt: time.Date(2021, 3, 4, 5, 6, 7, 891_000, time.UTC),
	}
	places := mustAppend(t, pool, "cämpaign", full, event.Event{Type: "noted"})
	for i, want := range []event.Event{full, {
		Type: "noted", Version: 1, Intent: event.ProjectionAndReplay,
		Payload: json.RawMessage(`{}`), ID: places[1].ID,
	}} {
		got, err := journal.Get(t.Context(), pool, "cämpaign", int64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if found, err := journal.Find(t.Context(), pool, "cämpaign", places[i].ID); err != nil || found.Seq != got.Seq ||
			found.Position != places[i].Position {
			t.Errorf("found %+v by id, %v", found, err)
		}
		if want.OccurredAt.IsZero() {
			want.OccurredAt = got.RecordedAt
		}
		if got.ID != want.ID || got.Type != want.Type || got.Version != want.Version || got.Intent != want.Intent ||
			got.AggregateType != want.AggregateType ||
			got.AggregateID != want.AggregateID || got.Actor != want.Actor || !slices.Equal(got.Tags, want.Tags) ||
			!got.OccurredAt.Equal(want.OccurredAt) ||
			!sameJSON(t, got.Payload, want.Payload) || !sameJSON(t, got.Metadata, want.Metadata) ||
			got.CampaignID != "cämpaign" || got.Position != places[i].Position {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if age := time.Since(got.RecordedAt); age < -time.Minute || age > time.Minute {
			t.Errorf("recorded %s ago", age)
		}
	}
}

func sameJSON(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var left, right any
	if err := errors.Join(json.Unmarshal(a, &left), json.Unmarshal(b, &right)); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(left) == fmt.Sprint(right)
}

func TestTheJournalRefusesChange(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppend(t, pool, "c", noted(2)...)
	for _, statement := range []string{
		"UPDATE tidemark.journal SET event_type = 'other' WHERE seq = 1",
		"DELETE FROM tidemark.journal WHERE seq = 1",
		"TRUNCATE tidemark.journal",
		"INSERT INTO tidemark.journal SELECT * FROM tidemark.journal ON CONFLICT (campaign_id, seq) DO UPDATE SET " +
			"event_type = 'other'",
	} {
		_, err := pool.Exec(t.Context(), statement)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "TM009" {
			t.Errorf("%s: got %v", statement, err)
		}
	}
	if n := query[int64](t, pool, "SELECT count(*) FROM tidemark.journal WHERE event_type = 'noted'"); n != 2 {
		t.Errorf("%d of 2 events are as they were", n)
	}
}
