package scheduled_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/scheduled"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// schedule schedules an append of one event of each type, due so long from now.
func schedule(t *testing.T, pool *pgxpool.Pool, campaign string, in time.Duration, types ...string) (id int64) {
	t.Helper()
	events := make([]event.Event, len(types))
	for i, name := range types {
		events[i].Type = name
	}
	return scheduleEvents(t, pool, campaign, in, events...)
}

func scheduleEvents(
	t *testing.T, pool *pgxpool.Pool, campaign string, in time.Duration, events ...event.Event,
) (id int64) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		s, err := journal.Journal{}.AppendAt(t.Context(), tx, campaign, time.Now().Add(in), events...)
		id = s.ID
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return id
}

// fire looks once.
func fire(t *testing.T, pool *pgxpool.Pool, look scheduled.Look) scheduled.Fired {
	t.Helper()
	fired, err := scheduled.Fire(t.Context(), pool, look)
	if err != nil {
		t.Fatal(err)
	}
	return fired
}

// types returns the types of a campaign's events.
func types(t *testing.T, pool *pgxpool.Pool, campaign string) string {
	t.Helper()
	return value[string](t, pool, `SELECT coalesce(string_agg(event_type, ' ' ORDER BY seq), '') FROM tidemark.journal
		WHERE campaign_id = $1`, campaign)
}

func value[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// begin opens a transaction that stays idle until the test ends it.
func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
	return tx
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, expected %v", what, got, want)
	}
}

func TestFire(t *testing.T) {
	t.Parallel()
	t.Run("appends what is due in the order of due times and of scheduling", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		schedule(t, pool, "a", -time.Minute, "third", "fourth")
		schedule(t, pool, "a", -time.Hour, "first")
		exec(t, pool, `SELECT tidemark.append_at('a', now() - interval '1 min', format('[{"type": "n%s"}]', n))
			FROM generate_series(1, 30) AS n`)
		schedule(t, pool, "a", -2*time.Minute, "second")
		schedule(t, pool, "a", time.Hour, "later")
		schedule(t, pool, "b", -time.Minute, "other")
		expect(t, "appends", fire(t, pool, scheduled.Look{}).Appends, 34)
		want := []string{"first", "second", "third", "fourth"}
		for n := 1; n <= 30; n++ {
			want = append(want, fmt.Sprintf("n%d", n))
		}
		expect(t, "campaign a", types(t, pool, "a"), strings.Join(want, " "))
		expect(t, "campaign b", types(t, pool, "b"), "other")
		expect(t, "left", value[int](t, pool, `SELECT count(*) FROM tidemark.scheduled`), 1)
		expect(t, "appends", fire(t, pool, scheduled.Look{}).Appends, 0)
	})

	t.Run("changes nothing when the append was made before", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		id := scheduleEvents(t, pool, "a", -time.Minute, event.Event{
			Type: "noted", Payload: json.RawMessage(`{"a": 1}`), Actor: "ada", Tags: []string{"x"},
			Metadata: json.RawMessage(`{"m": 1}`),
		}, event.Event{Type: "noted", ID: uuid.New()})
		exec(t, pool, `CREATE TABLE kept AS SELECT * FROM tidemark.scheduled`)
		fire(t, pool, scheduled.Look{})
		exec(t, pool, `INSERT INTO tidemark.scheduled OVERRIDING SYSTEM VALUE SELECT * FROM kept WHERE id = $1`, id)
		fired := fire(t, pool, scheduled.Look{})
		expect(t, "appends", fired.Appends, 1)
		expect(t, "refused", fired.Refused, 0)
		expect(t, "events", types(t, pool, "a"), "noted noted")
		expect(t, "left", value[int](t, pool, `SELECT count(*) FROM tidemark.scheduled`), 0)
	})

	t.Run("leaves out the campaign alone that an open transaction has locked", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		idle := begin(t, pool)
		if _, err := (journal.Journal{}).Append(t.Context(), idle, "a", journal.Any, event.Event{Type: "open"}); err != nil {
			t.Fatal(err)
		}
		for _, campaign := range []string{"a", "b", "a", "c"} {
			schedule(t, pool, campaign, -time.Minute, "due")
		}
		fired := fire(t, pool, scheduled.Look{})
		expect(t, "appends", fired.Appends, 2)
		expect(t, "busy", fmt.Sprint(fired.Busy), "[a]")
		fired = fire(t, pool, scheduled.Look{Campaign: "a"})
		expect(t, "busy after waiting", fmt.Sprint(fired.Busy), "[a]")
		if err := idle.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, "appends", fire(t, pool, scheduled.Look{Campaign: "a"}).Appends, 2)
		expect(t, "campaign a", types(t, pool, "a"), "open due due")
	})

	t.Run("leaves out the events alone that a condition of an open transaction selects", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		idle := begin(t, pool)
		if _, err := (journal.Journal{}).AppendIf(t.Context(), idle, []event.Event{{CampaignID: "z", Type: "open"}}, journal.Condition{
			FailIfMatch: event.Tagged([]string{"seat=1"}, "taken"),
		}); err != nil {
			t.Fatal(err)
		}
		scheduleEvents(t, pool, "a", -time.Minute, event.Event{Type: "taken", Tags: []string{"seat=1"}})
		scheduleEvents(t, pool, "b", -time.Minute, event.Event{Type: "taken", Tags: []string{"seat=2"}})
		schedule(t, pool, "c", -time.Minute, "due")
		fired := fire(t, pool, scheduled.Look{})
		expect(t, "appends", fired.Appends, 2)
		expect(t, "busy", fmt.Sprint(fired.Busy), "[a]")
		if err := idle.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, "appends", fire(t, pool, scheduled.Look{}).Appends, 1)
	})

	t.Run("appends many tags under locks of buckets", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		for c := range 3 {
			e := event.Event{Type: "noted"}
			for tag := range 60 {
				e.Tags = append(e.Tags, fmt.Sprintf("tag=%d", 60*c+tag))
			}
			scheduleEvents(t, pool, fmt.Sprint("c", c), -time.Minute, e)
		}
		fired := fire(t, pool, scheduled.Look{})
		expect(t, "appends", fired.Appends, 3)
		expect(t, "tags", value[int](t, pool, `SELECT count(*) FROM tidemark.event_tags`), 180)
	})

	t.Run("waits with what comes behind an append that is being cancelled", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		schedule(t, pool, "a", -3*time.Minute, "first")
		second := schedule(t, pool, "a", -2*time.Minute, "second")
		schedule(t, pool, "a", -time.Minute, "third")
		schedule(t, pool, "b", -time.Minute, "other")
		idle := begin(t, pool)
		cancelled, err := journal.Cancel(t.Context(), idle, second)
		if err != nil || !cancelled {
			t.Fatal(cancelled, err)
		}
		fired := fire(t, pool, scheduled.Look{})
		expect(t, "appends", fired.Appends, 2)
		expect(t, "held", fired.Held, 2)
		if err := idle.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, "appends", fire(t, pool, scheduled.Look{}).Appends, 2)
		expect(t, "campaign a", types(t, pool, "a"), "first second third")
	})

	t.Run("sets aside a refused append and tries it again", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		schedule(t, pool, "a", -3*time.Minute, "before")
		long := event.Event{Type: "long", Payload: json.RawMessage(`{"secret": "` + strings.Repeat("x", 500) + `"}`)}
		id := scheduleEvents(t, pool, "a", -2*time.Minute, long)
		schedule(t, pool, "a", -time.Minute, "after")
		schedule(t, pool, "b", -time.Minute, "other")
		exec(t, pool, `UPDATE tidemark.limits SET payload_bytes = 400`)
		fired := fire(t, pool, scheduled.Look{})
		expect(t, "appends", fired.Appends, 3)
		expect(t, "refused", fired.Refused, 1)
		expect(t, "campaign a", types(t, pool, "a"), "before after")
		expect(t, "the refusal", value[string](t, pool, `SELECT error FROM tidemark.scheduled WHERE id = $1 AND attempts = 1
			AND attempt_at BETWEEN now() AND now() + interval '1 s' AND due_at < now()`, id),
			"event 0 (long) of campaign a: payload has 514 bytes, the limit is 400 (payload_bytes of tidemark.limits): "+
				"store the bulk elsewhere and append a reference")
		expect(t, "appends before the next attempt", fire(t, pool, scheduled.Look{}).Refused, 0)
		exec(t, pool, `UPDATE tidemark.scheduled SET attempts = 20, attempt_at = now()`)
		expect(t, "refused", fire(t, pool, scheduled.Look{}).Refused, 1)
		expect(t, "wait before the 22nd attempt", value[bool](t, pool, `SELECT attempt_at - now() BETWEEN '9 min' AND '10 min'
			FROM tidemark.scheduled`), true)
		exec(t, pool, `UPDATE tidemark.limits SET payload_bytes = 1000`)
		exec(t, pool, `UPDATE tidemark.scheduled SET attempt_at = now()`)
		expect(t, "appends", fire(t, pool, scheduled.Look{}).Appends, 1)
		expect(t, "campaign a", types(t, pool, "a"), "before after long")
	})

	t.Run("keeps no value of an event with the refusal", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		exec(t, pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			RAISE EXCEPTION 'not %', NEW.payload; END $$`)
		exec(t, pool, `CREATE TRIGGER refuse BEFORE INSERT ON tidemark.journal FOR EACH ROW EXECUTE FUNCTION refuse()`)
		scheduleEvents(t, pool, "a", -time.Minute, event.Event{Type: "noted", Payload: json.RawMessage(`{"a": "planted"}`)})
		expect(t, "refused", fire(t, pool, scheduled.Look{}).Refused, 1)
		expect(t, "the refusal", value[string](t, pool, `SELECT error FROM tidemark.scheduled`),
			"refused with SQLSTATE P0001: append the events by hand to see why")
	})

	t.Run("leaves everything where it is when the server has a fault", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		exec(t, pool, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'; END $$`)
		exec(t, pool, `CREATE TRIGGER full_disk BEFORE INSERT ON tidemark.journal FOR EACH ROW EXECUTE FUNCTION full_disk()`)
		schedule(t, pool, "a", -time.Minute, "due")
		if _, err := scheduled.Fire(t.Context(), pool, scheduled.Look{}); err == nil {
			t.Error("the fault is no error")
		}
		expect(t, "refusals", value[int](t, pool, `SELECT sum(attempts) FROM tidemark.scheduled`), 0)
	})

	t.Run("does not wait longer after the clock has gone back", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		id := schedule(t, pool, "a", -time.Minute, "due")
		later := schedule(t, pool, "a", 48*time.Hour, "later")
		// A refusal and an announced sleep, written a day ahead of this clock.
		exec(t, pool, `UPDATE tidemark.scheduled SET attempts = 3, attempt_at = now() + interval '1 day' WHERE id = $1`, id)
		exec(t, pool, `UPDATE tidemark.scheduled SET attempts = 1 WHERE id = $1`, later)
		exec(t, pool, `SELECT setval('tidemark.next_look', (extract(epoch FROM now()) * 1000)::bigint + 86400000)`)
		fire(t, pool, scheduled.Look{Sleep: time.Second, Listens: true})
		expect(t, "the announced sleep is of this clock", value[bool](t, pool, `SELECT last_value BETWEEN
			extract(epoch FROM now()) * 1000 AND extract(epoch FROM now()) * 1000 + 1000 FROM tidemark.next_look`), true)
		expect(t, "appends", fire(t, pool, scheduled.Look{}).Appends, 1)
		expect(t, "what is not due", value[int](t, pool, `SELECT count(*) FROM tidemark.scheduled WHERE due_at = attempt_at`), 1)
	})

	t.Run("appends nothing twice when the clock jumps", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		schedule(t, pool, "a", time.Hour, "due")
		expect(t, "appends", fire(t, pool, scheduled.Look{}).Appends, 0)
		exec(t, pool, `UPDATE tidemark.scheduled SET due_at = due_at - interval '2 h', attempt_at = attempt_at - interval '2 h'`)
		expect(t, "appends after a jump ahead", fire(t, pool, scheduled.Look{}).Appends, 1)
		expect(t, "appends after a jump back", fire(t, pool, scheduled.Look{}).Appends, 0)
		expect(t, "events", types(t, pool, "a"), "due")
	})

	t.Run("gives groups that apply inline a work item", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		exec(t, pool, `INSERT INTO tidemark.consumer_groups (name, state) VALUES ('inline', 'inline'), ('ready', 'ready')`)
		schedule(t, pool, "a", -time.Minute, "one", "two")
		schedule(t, pool, "a", -time.Minute, "three")
		fire(t, pool, scheduled.Look{})
		expect(t, "work items", value[string](t, pool, `SELECT string_agg(concat_ws(' ', consumer_group, seq, events), ', '
			ORDER BY consumer_group) FROM tidemark.outbox`), "inline 3 3, ready 3 3")
	})

	t.Run("goes on behind what is held, in parts", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		exec(t, pool, `SELECT tidemark.append_at('a', now() - interval '1 h', '[{"type": "held"}]') FROM generate_series(1, 600)`)
		exec(t, pool, `SELECT tidemark.append_at('b' || n, now() - interval '1 min', '[{"type": "due"}]')
			FROM generate_series(1, 600) AS n`)
		idle := begin(t, pool)
		if _, err := idle.Exec(t.Context(), `SELECT tidemark.lock_campaign('a')`); err != nil {
			t.Fatal(err)
		}
		made, look := int64(0), scheduled.Look{}
		for more := true; more; {
			fired := fire(t, pool, look)
			made, look.After, more = made+fired.Appends, fired.After, fired.More
		}
		expect(t, "appends", made, 600)
		schedule(t, pool, "b", -time.Second, "due")
		expect(t, "appends without the busy campaign", fire(t, pool, scheduled.Look{Skip: []string{"a"}}).Appends, 1)
	})

	t.Run("limits the bytes of a transaction", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		exec(t, pool, `ALTER TABLE tidemark.scheduled ALTER events SET STORAGE external`)
		exec(t, pool, `SELECT tidemark.append_at('a', now(), jsonb_build_array(jsonb_build_object('type', 'large', 'payload',
			jsonb_build_object('a', repeat('x', 1000000))))) FROM generate_series(1, 12)`)
		fired := fire(t, pool, scheduled.Look{})
		expect(t, "appends", fired.Appends, 9)
		expect(t, "more", fired.More, true)
	})
}

// TestCampaignsKeepTheirOrderAmongWorkers lets four workers make the appends of ten campaigns, while
// others schedule and cancel.
func TestCampaignsKeepTheirOrderAmongWorkers(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `SELECT tidemark.append_at('c' || n % 10, now() - interval '1 h' + n * interval '1 ms',
		format('[{"type": "noted", "payload": {"n": %s}}]', n)) FROM generate_series(1, 6000) AS n`)
	var workers sync.WaitGroup
	var mu sync.Mutex
	cancelled := map[int64]bool{}
	for range 4 {
		workers.Go(func() {
			look, idle := scheduled.Look{}, true
			for {
				fired, err := scheduled.Fire(t.Context(), pool, look)
				if err != nil {
					t.Error(err)
					return
				}
				look.After, idle = fired.After, idle && fired.Appends+fired.Held == 0 && len(fired.Busy) == 0
				if fired.More {
					continue
				}
				if idle {
					return
				}
				look.After, idle = nil, true
			}
		})
	}
	workers.Go(func() {
		for id := int64(6000); id > 0; id -= 7 {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				was, err := journal.Cancel(t.Context(), tx, id)
				mu.Lock()
				defer mu.Unlock()
				cancelled[id] = was
				return err
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	workers.Wait()
	rows, err := pool.Query(t.Context(), `SELECT campaign_id, (payload ->> 'n')::bigint FROM tidemark.journal
		ORDER BY campaign_id, seq`)
	if err != nil {
		t.Fatal(err)
	}
	var campaign string
	var n int64
	last, made := map[string]int64{}, map[int64]bool{}
	if _, err := pgx.ForEachRow(rows, []any{&campaign, &n}, func() error {
		if n <= last[campaign] {
			t.Errorf("%s: %d comes behind %d", campaign, n, last[campaign])
		}
		last[campaign], made[n] = n, true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= 6000; n++ { // ids are those numbers
		if made[n] == cancelled[n] {
			t.Errorf("append %d: made %v, cancelled %v", n, made[n], cancelled[n])
		}
	}
}

func TestAnAppendNotifiesWhenAWorkerSleepsTooLong(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	if _, err := conn.Exec(t.Context(), "LISTEN "+scheduled.Channel); err != nil {
		t.Fatal(err)
	}
	// notified reports whether a notification has arrived, up to one that the session sends itself.
	notified := func() bool {
		t.Helper()
		if _, err := conn.Exec(t.Context(), "NOTIFY "+scheduled.Channel+", 'end'"); err != nil {
			t.Fatal(err)
		}
		for heard := false; ; heard = true {
			n, err := conn.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n.Payload == "end" {
				return heard
			}
		}
	}
	schedule(t, pool, "a", time.Minute, "early")
	expect(t, "notified while no worker sleeps", notified(), false)
	asleep := scheduled.Look{Sleep: time.Hour, Listens: true}
	if sleep := fire(t, pool, asleep).Sleep; sleep < 55*time.Second || sleep > time.Minute {
		t.Errorf("the worker sleeps for %v, and an append is due in a minute", sleep)
	}
	schedule(t, pool, "a", 2*time.Minute, "late")
	expect(t, "notified of an append after the end of the sleep", notified(), false)
	schedule(t, pool, "a", time.Second, "soon")
	expect(t, "notified of an append before the end of the sleep", notified(), true)
	schedule(t, pool, "a", -time.Second, "due")
	expect(t, "notified of an append that is due", notified(), true)
	fire(t, pool, scheduled.Look{})
	schedule(t, pool, "a", -time.Second, "due")
	expect(t, "notified while the worker is awake", notified(), false)
	fire(t, pool, scheduled.Look{Sleep: time.Hour})
	schedule(t, pool, "a", -time.Second, "due")
	expect(t, "notified while the worker does not listen", notified(), false)
	fire(t, pool, asleep)
	fire(t, pool, scheduled.Look{Sleep: 2 * time.Hour, Listens: true})
	exec(t, pool, `DELETE FROM tidemark.scheduled`)
	fire(t, pool, scheduled.Look{Sleep: 2 * time.Hour, Listens: true})
	schedule(t, pool, "a", 90*time.Second, "later than the first of two workers wakes")
	expect(t, "notified when another worker wakes before", notified(), false)
	exec(t, pool, `SET tidemark.notify = off; SELECT tidemark.append_at('a', now(), '[{"type": "due"}]'); RESET tidemark.notify`)
	expect(t, "notified from a transaction that must not", notified(), false)
}
