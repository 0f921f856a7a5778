package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// held returns an event with an id of its own.
func held(seat int) event.Event {
	return event.Event{
		ID: uuid.New(), Type: "held", Tags: []string{"seat"}, Payload: fmt.Appendf(nil, `{"seat": %d}`, seat),
	}
}

func cancelled(t *testing.T, pool *pgxpool.Pool, id int64) (done bool) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		done, err = journal.Cancel(t.Context(), tx, id)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return done
}

func rowsOf(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return query[int](t, pool, `SELECT count(*) FROM tidemark.scheduled`)
}

func eventsOf(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return query[int](t, pool, `SELECT count(*) FROM tidemark.journal`)
}

func TestARepeatedAppendAtIsAnsweredWithTheFirst(t *testing.T) {
	t.Parallel()
	soon := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	a, b, c := held(1), held(2), held(3)
	first := func(t *testing.T, events ...event.Event) (*pgxpool.Pool, journal.Scheduled) {
		t.Helper()
		pool := pgtest.New(t)
		s, err := scheduleAll(t.Context(), pool, "hall", soon, events...)
		if err != nil || s.ID == 0 || !s.DueAt.Equal(soon) || s.Duplicate {
			t.Fatalf("%+v, %v", s, err)
		}
		return pool, s
	}

	t.Run("number and due time, and a cancellation is true", func(t *testing.T) {
		t.Parallel()
		pool, s := first(t, a, b)
		again, err := scheduleAll(t.Context(), pool, "hall", soon.Add(30*24*time.Hour), a, b)
		if err != nil || again.ID != s.ID || !again.DueAt.Equal(soon) || !again.Duplicate {
			t.Errorf("%+v, %v", again, err)
		}
		bare := b
		bare.ID = uuid.Nil
		if _, err := scheduleAll(t.Context(), pool, "other", soon, a, bare); err != nil {
			t.Fatal(err)
		}
		if again, err = scheduleAll(t.Context(), pool, "other", soon, a, bare); err != nil || !again.Duplicate {
			t.Errorf("an event without an id, %+v, %v", again, err)
		}
		if n := rowsOf(t, pool); n != 2 {
			t.Errorf("%d rows", n)
		}
		if !cancelled(t, pool, s.ID) || cancelled(t, pool, s.ID) {
			t.Error("not cancelled once")
		}
		exec(t, pool, `UPDATE tidemark.scheduled SET attempt_at = now() WHERE campaign_id = 'hall'`)
		if fireDue(t, pool); eventsOf(t, pool) != 0 {
			t.Error("a cancelled event has come")
		}
	})

	t.Run("another content or a part of the events is refused", func(t *testing.T) {
		t.Parallel()
		changes := map[string]func(*event.Event){
			"payload":   func(e *event.Event) { e.Payload = json.RawMessage(`{"seat": 7}`) },
			"type":      func(e *event.Event) { e.Type = "freed" },
			"version":   func(e *event.Event) { e.Version = 2 },
			"tags":      func(e *event.Event) { e.Tags = nil },
			"actor":     func(e *event.Event) { e.Actor = "ada" },
			"aggregate": func(e *event.Event) { e.AggregateType, e.AggregateID = "seat", "7" },
			"intent":    func(e *event.Event) { e.Intent = event.ReplayOnly },
			"metadata":  func(e *event.Event) { e.Metadata = json.RawMessage(`{"m": 1}`) },
			"time":      func(e *event.Event) { e.OccurredAt = soon },
		}
		pool, _ := first(t, a, b)
		refuses := func(when string) {
			t.Helper()
			for name, change := range changes {
				other := b
				change(&other)
				if _, err := scheduleAll(t.Context(), pool, "hall", soon, a, other); !errors.Is(err, journal.ErrEventIDReused) {
					t.Errorf("%s: another %s: %v", when, name, err)
				}
			}
			for name, events := range map[string][]event.Event{"fewer": {a}, "more": {a, b, c}, "another": {a, c}} {
				if _, err := scheduleAll(t.Context(), pool, "hall", soon, events...); !errors.Is(err, journal.ErrPartlyAppended) &&
					(when == "scheduled" || name != "fewer") {
					t.Errorf("%s: %s events: %v", when, name, err)
				}
			}
		}
		refuses("scheduled")
		if n := rowsOf(t, pool); n != 1 {
			t.Errorf("%d rows", n)
		}
		exec(t, pool, `UPDATE tidemark.scheduled SET attempt_at = now()`)
		if n := fireDue(t, pool); n != 1 {
			t.Fatalf("%d appends are made", n)
		}
		refuses("appended")
		if n := rowsOf(t, pool); n != 0 || eventsOf(t, pool) != 2 {
			t.Errorf("%d rows, %d events", n, eventsOf(t, pool))
		}
	})

	t.Run("that it was made", func(t *testing.T) {
		t.Parallel()
		pool, s := first(t, a, b)
		exec(t, pool, `UPDATE tidemark.scheduled SET attempt_at = now()`)
		fireDue(t, pool)
		again, err := scheduleAll(t.Context(), pool, "hall", soon, a, b)
		if err != nil || again != (journal.Scheduled{Duplicate: true}) || rowsOf(t, pool) != 0 {
			t.Errorf("%+v, %v, %d rows", again, err, rowsOf(t, pool))
		}
		if id := query[*int64](t, pool, `SELECT tidemark.append_at('hall', now(), jsonb_build_array(jsonb_build_object(
			'id', $1::text, 'type', 'held', 'tags', ARRAY['seat'], 'payload', jsonb_build_object('seat', 1))))`,
			a.ID.String()); id != nil {
			t.Errorf("append_at returns %d", *id)
		}
		if cancelled(t, pool, s.ID) || cancelled(t, pool, again.ID) {
			t.Error("an append is cancelled that was made")
		}
	})

	t.Run("an append by another call is not cancelled", func(t *testing.T) {
		t.Parallel()
		pool, s := first(t, a)
		mustAppend(t, pool, "hall", a)
		if cancelled(t, pool, s.ID) {
			t.Error("cancelled, and the event is there")
		}
	})

	t.Run("the time is moved by cancelling and scheduling anew", func(t *testing.T) {
		t.Parallel()
		pool, s := first(t, a)
		var moved journal.Scheduled
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			done, err := journal.Cancel(t.Context(), tx, s.ID)
			if err == nil && done {
				moved, err = journal.Journal{}.AppendAt(t.Context(), tx, "hall", soon.Add(time.Hour), a)
			}
			return err
		}); err != nil || moved.ID == s.ID || moved.Duplicate || !moved.DueAt.Equal(soon.Add(time.Hour)) {
			t.Errorf("%+v, %v", moved, err)
		}
	})
}

func TestRepeatsAtTheSameTimeScheduleOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	e := held(1)
	t.Run("many calls", func(t *testing.T) {
		ids := make([]journal.Scheduled, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				s, err := scheduleAll(t.Context(), pool, "hall", time.Now().Add(time.Hour), e)
				if err != nil {
					t.Error(err)
				}
				ids[i] = s
			})
		}
		all.Wait()
		for _, s := range ids {
			if s.ID != ids[0].ID || !s.DueAt.Equal(ids[0].DueAt) {
				t.Errorf("%+v beside %+v", s, ids[0])
			}
		}
	})

	for name, end := range map[string]string{
		"while it is made": `SELECT tidemark.fire_scheduled(500, NULL, '-infinity', NULL, '{}', NULL, false)`,
		"while it is cancelled": `SELECT tidemark.cancel_scheduled((SELECT id FROM tidemark.scheduled
			WHERE campaign_id = 'a cancelled one'))`,
	} {
		t.Run(name, func(t *testing.T) {
			campaign, e := "a cancelled one", held(2)
			if name == "while it is made" {
				campaign = "a made one"
			}
			s, err := scheduleAll(t.Context(), pool, campaign, time.Now().Add(-time.Hour), e)
			if err != nil {
				t.Fatal(err)
			}
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			if _, err := tx.Exec(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			answers := make(chan journal.Scheduled)
			go func() {
				again, err := scheduleAll(t.Context(), pool, campaign, time.Now().Add(time.Hour), e)
				if err != nil {
					t.Error(err)
				}
				answers <- again
			}()
			tally.Eventually(t, "the repeat waits", tally.Holds(pool, `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE wait_event = 'transactionid' AND query LIKE '%tidemark.schedule%' AND datname = current_database())`))
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			again := <-answers
			switch {
			case name == "while it is made" && again != (journal.Scheduled{Duplicate: true}):
				t.Errorf("%+v", again)
			case name != "while it is made" && (again.ID <= s.ID || again.Duplicate):
				t.Errorf("%+v after %+v was cancelled", again, s)
			}
		})
	}
}
