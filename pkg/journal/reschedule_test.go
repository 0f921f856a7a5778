package journal_test

import (
	"context"
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

const fireAll = `SELECT fired FROM tidemark.fire_scheduled(500, NULL, '-infinity', NULL, '{}', NULL, false)`

// move moves in a transaction of its own.
func move(ctx context.Context, pool *pgxpool.Pool, id int64, due time.Time) (m journal.Rescheduled, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		m, err = journal.Reschedule(ctx, tx, id, due)
		return err
	})
	return m, err
}

// waits waits until a session waits for a transaction in a call of the function.
func waits(t *testing.T, pool *pgxpool.Pool, function string) {
	t.Helper()
	tally.Eventually(t, function+" waits", tally.Holds(pool, `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND query LIKE '%tidemark.`+function+`%' AND datname = current_database())`))
}

func TestRescheduleGivesAScheduledAppendAnotherTime(t *testing.T) {
	t.Parallel()
	soon := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	later := soon.Add(30 * 24 * time.Hour)
	e := held(1)

	t.Run("and says which it had", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		s, err := scheduleAll(t.Context(), pool, "hall", soon, e)
		if err != nil {
			t.Fatal(err)
		}
		m, err := move(t.Context(), pool, s.ID, later)
		if err != nil || !m.Done || m.ID != s.ID || !m.DueAt.Equal(later) || !m.WasDueAt.Equal(soon) {
			t.Errorf("%+v, %v", m, err)
		}
		again, err := scheduleAll(t.Context(), pool, "hall", soon, e)
		if err != nil || again.ID != s.ID || !again.DueAt.Equal(later) || !again.Duplicate {
			t.Errorf("the repeat of the first call says %+v, %v", again, err)
		}
		if m, err = move(t.Context(), pool, s.ID, time.Now().Add(-time.Second)); err != nil || !m.WasDueAt.Equal(later) {
			t.Errorf("%+v, %v", m, err)
		}
		if n := fireDue(t, pool); n != 1 || eventsOf(t, pool) != 1 {
			t.Errorf("%d are made, %d events", n, eventsOf(t, pool))
		}
	})

	t.Run("not one that was made, cancelled, never scheduled, or appended by others", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		ids := map[string]int64{"never scheduled": 4711}
		for _, name := range []string{"made", "cancelled", "appended"} {
			s, err := scheduleAll(t.Context(), pool, name, time.Now().Add(-time.Second), e)
			if err != nil {
				t.Fatal(err)
			}
			switch ids[name] = s.ID; name {
			case "made":
				fireDue(t, pool)
			case "cancelled":
				cancelled(t, pool, s.ID)
			case "appended":
				mustAppend(t, pool, name, e)
			}
		}
		for name, id := range ids {
			if m, err := move(t.Context(), pool, id, later); err != nil || m != (journal.Rescheduled{ID: id}) {
				t.Errorf("%s: %+v, %v", name, m, err)
			}
		}
	})

	t.Run("to a year from 1 to 9999", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		s, err := scheduleAll(t.Context(), pool, "hall", soon, e)
		if err != nil {
			t.Fatal(err)
		}
		_, err = move(t.Context(), pool, s.ID, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
		var invalid *journal.InvalidEventError
		if !errors.As(err, &invalid) || invalid.Field != "due" {
			t.Errorf("%v", err)
		}
	})

	t.Run("in the order of due times", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		past := time.Now().Add(-time.Hour)
		for i := range 3 {
			s, err := scheduleAll(t.Context(), pool, "hall", past.Add(time.Duration(i)*time.Minute),
				event.Event{Type: fmt.Sprintf("e%d", i)})
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				if _, err := move(t.Context(), pool, s.ID, past.Add(90*time.Second)); err != nil {
					t.Fatal(err)
				}
			}
		}
		fireDue(t, pool)
		if order := query[string](t, pool, `SELECT string_agg(event_type, ' ' ORDER BY seq) FROM tidemark.journal`); order !=
			"e1 e0 e2" {
			t.Errorf("made in the order %s", order)
		}
	})

	t.Run("and a refused one begins anew", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		s, err := scheduleAll(t.Context(), pool, "hall", soon, e)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, pool, `UPDATE tidemark.scheduled SET attempts = 3, error = 'refused'`)
		if _, err := move(t.Context(), pool, s.ID, later); err != nil {
			t.Fatal(err)
		}
		if n := query[int](t, pool, `SELECT count(*) FROM tidemark.scheduled
			WHERE attempts = 0 AND error IS NULL AND attempt_at = due_at`); n != 1 {
			t.Error("its refusals stand")
		}
	})
}

func TestAMoveAndTheWorkerThatMakesTheAppendMeet(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (*pgxpool.Pool, int64, pgx.Tx) {
		t.Helper()
		pool := pgtest.New(t)
		s, err := scheduleAll(t.Context(), pool, "hall", time.Now().Add(-time.Hour), held(1))
		if err != nil {
			t.Fatal(err)
		}
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
		return pool, s.ID, tx
	}
	later := time.Now().Add(time.Hour)

	for name, end := range map[string]func(pgx.Tx, context.Context) error{
		"the worker comes first":           pgx.Tx.Commit,
		"the worker comes first, and dies": pgx.Tx.Rollback,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, id, tx := begin(t)
			if _, err := tx.Exec(t.Context(), fireAll); err != nil {
				t.Fatal(err)
			}
			answers := make(chan journal.Rescheduled)
			go func() {
				m, err := move(t.Context(), pool, id, later)
				if err != nil {
					t.Error(err)
				}
				answers <- m
			}()
			waits(t, pool, "reschedule")
			if err := end(tx, t.Context()); err != nil {
				t.Fatal(err)
			}
			m := <-answers
			made := name == "the worker comes first"
			if m.Done == made || (eventsOf(t, pool) == 1) != made || (rowsOf(t, pool) == 0) != made {
				t.Errorf("%+v, %d events, %d rows", m, eventsOf(t, pool), rowsOf(t, pool))
			}
		})
	}

	t.Run("the move comes first", func(t *testing.T) {
		t.Parallel()
		pool, id, tx := begin(t)
		if m, err := journal.Reschedule(t.Context(), tx, id, later); err != nil || !m.Done {
			t.Fatalf("%+v, %v", m, err)
		}
		if held := query[int64](t, pool, `SELECT held FROM tidemark.fire_scheduled(500, NULL, '-infinity', NULL, '{}', NULL,
			false)`); held != 1 {
			t.Errorf("%d are held", held)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := fireDue(t, pool); n != 0 || rowsOf(t, pool) != 1 {
			t.Errorf("%d are made, %d rows", n, rowsOf(t, pool))
		}
	})

	t.Run("many times", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		const n = 300
		ids := make([]int64, n)
		for i := range ids {
			s, err := scheduleAll(t.Context(), pool, fmt.Sprintf("c%03d", i), time.Now().Add(-time.Hour), held(i))
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = s.ID
		}
		var all sync.WaitGroup
		var done int
		all.Go(func() {
			for i := range ids {
				m, err := move(t.Context(), pool, ids[n-1-i], later)
				if err != nil {
					t.Error(err)
				}
				if m.Done {
					done++
				}
			}
		})
		all.Go(func() {
			for range 40 {
				if _, err := pool.Exec(t.Context(), `SELECT tidemark.fire_scheduled(10, NULL, '-infinity', NULL, '{}', NULL, false)`); err != nil {
					t.Error(err)
				}
			}
		})
		all.Wait()
		if rows, events := rowsOf(t, pool), eventsOf(t, pool); rows < done || rows+events != n ||
			query[int](t, pool, `SELECT count(*) FROM tidemark.scheduled WHERE due_at > now()`) != done {
			t.Errorf("%d are moved, %d are still to be made, %d are made", done, rows, events)
		}
	})
}

// An open transaction holds up a call on the same append for this long at most.
func TestCallsOnOneScheduledAppendWaitOnlySoLong(t *testing.T) {
	t.Parallel()
	e := held(1)
	calls := map[string]func(pgx.Tx, context.Context, int64) error{
		"schedule": func(tx pgx.Tx, ctx context.Context, _ int64) error {
			_, err := journal.Journal{}.AppendAt(ctx, tx, "hall", time.Now().Add(time.Hour), e)
			return err
		},
		"cancel_scheduled": func(tx pgx.Tx, ctx context.Context, id int64) error {
			_, err := journal.Cancel(ctx, tx, id)
			return err
		},
		"reschedule": func(tx pgx.Tx, ctx context.Context, id int64) error {
			_, err := journal.Reschedule(ctx, tx, id, time.Now())
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			s := journal.Scheduled{}
			if name != "schedule" {
				var err error
				if s, err = scheduleAll(t.Context(), pool, "hall", time.Now().Add(time.Hour), e); err != nil {
					t.Fatal(err)
				}
			}
			open, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = open.Rollback(context.WithoutCancel(t.Context())) }()
			if err := call(open, t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			for _, setting := range []string{"0", "100ms"} {
				before := time.Now()
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(t.Context(), `SELECT set_config('lock_timeout', $1, true)`, setting); err != nil {
						return err
					}
					return call(tx, t.Context(), s.ID)
				})
				if took := time.Since(before); sqlState(err) != "55P03" || (setting == "0") != (took > 5*time.Second) {
					t.Errorf("lock_timeout %s: %v after %s", setting, err, took)
				}
			}
			if err := open.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			left := ""
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				if err := call(tx, t.Context(), s.ID); err != nil {
					return err
				}
				return tx.QueryRow(t.Context(), `SELECT current_setting('lock_timeout')`).Scan(&left)
			}); err != nil || left != "0" {
				t.Errorf("%v; lock_timeout is %s afterwards", err, left)
			}
		})
	}
}

func TestAppendsThatShareIDsAreRefusedWhenTheyAreScheduled(t *testing.T) {
	t.Parallel()
	soon := time.Now().Add(time.Hour)
	a, b, c, d := held(1), held(2), held(3), held(4)
	bare := held(5)
	bare.ID = uuid.Nil
	for name, calls := range map[string][2][]event.Event{
		"the second is the first of another": {{a, b}, {b}},
		"the second of both":                 {{a, b}, {c, b}},
		"the first is the second of another": {{b}, {a, b}},
		"in the middle":                      {{a, b, c}, {d, b}},
		"more, in another order":             {{a, b}, {b, a, c}},
		"fewer, in another order":            {{a, b, c}, {b, a}},
		"behind one without an id":           {{bare, a, b}, {c, b}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			if _, err := scheduleAll(t.Context(), pool, "other", soon, calls[1]...); err != nil {
				t.Fatal(err)
			}
			if _, err := scheduleAll(t.Context(), pool, "hall", soon, calls[0]...); err != nil {
				t.Fatal(err)
			}
			if s, err := scheduleAll(t.Context(), pool, "hall", soon, calls[1]...); !errors.Is(err, journal.ErrPartlyAppended) {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	t.Run("the same events in another order are a repeat", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		s, err := scheduleAll(t.Context(), pool, "hall", soon, a, b)
		if err != nil {
			t.Fatal(err)
		}
		again, err := scheduleAll(t.Context(), pool, "hall", soon, b, a)
		if err != nil || again.ID != s.ID || !again.Duplicate || rowsOf(t, pool) != 1 {
			t.Errorf("%+v, %v, %d rows", again, err, rowsOf(t, pool))
		}
		changed := a
		changed.Type = "freed"
		if _, err := scheduleAll(t.Context(), pool, "hall", soon, b, changed); !errors.Is(err, journal.ErrEventIDReused) {
			t.Errorf("another content: %v", err)
		}
	})
}
