package publisher_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func pairKey() publications.Key { return publications.Key{Topic: "all", Publisher: "out"} }
func anna() publications.Act    { return publications.Act{By: "anna", Reason: "she said so"} }

func status(t *testing.T, db interface {
	publications.DB
}, want string,
) func() bool {
	t.Helper()
	return func() bool {
		rows, err := db.Query(t.Context(), "SELECT status FROM tidemark.readers")
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
		return err == nil && got == want
	}
}

func TestAPauseHoldsOverRestartsUntilItIsEnded(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	appendTo(t, pool, 3, "a")
	stop := start(t, quick(pool, sink))
	eventually(t, "it publishes", func() bool { return len(sink.Received()) == 3 })
	if err := publications.Suspend(t.Context(), pool, pairKey(), 0, anna()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pair is given back", func() bool {
		return query[bool](t, pool, "SELECT expires_at = '-infinity' FROM tidemark.readers")
	})
	appendTo(t, pool, 3, "a")
	stop()
	stop = start(t, quick(pool, sink))
	eventually(t, "a relay is there", func() bool {
		return query[int](t, pool, "SELECT count(*) FROM tidemark.relays WHERE seen_at > started_at") == 1
	})
	if n := len(sink.Received()); n != 3 {
		t.Errorf("%d events have arrived, the pair was paused after 3", n)
	}
	if err := publications.Resume(t.Context(), pool, pairKey(), anna()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes on", func() bool { return len(sink.Received()) == 6 })

	if err := publications.Suspend(t.Context(), pool, pairKey(), 300*time.Millisecond, anna()); err != nil {
		t.Fatal(err)
	}
	appendTo(t, pool, 3, "a")
	eventually(t, "the pause ends by itself", func() bool {
		return len(sink.Received()) == 9 && status(t, pool, "ACTIVE")()
	})
	stop()
	if got := query[string](t, pool,
		"SELECT string_agg(act || ' ' || actor || ' ' || reason, ', ' ORDER BY id) FROM tidemark.operator_log"); got !=
		"publisher_paused anna she said so, publisher_resumed anna she said so, publisher_paused anna she said so" {
		t.Errorf("the log says %s", got)
	}
}

func TestActsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustExec(t, pool, "INSERT INTO tidemark.readers (topic, publisher, position) VALUES ('all', 'out', 0)")
	appendTo(t, pool, 3, "a")
	_, ahead := publications.Reset(t.Context(), pool, pairKey(), publications.ResetTo{Position: ptr(int64(4))}, anna())
	_, resolve := publications.Resolve(t.Context(), pool, publications.ParkedFilter{}, publications.Act{By: "anna"})
	_, retry := publications.Retry(t.Context(), pool, publications.ParkedFilter{}, anna())
	for name, test := range map[string]struct {
		err  error
		is   error
		says string
	}{
		"resume what is not paused": {
			publications.Resume(t.Context(), pool, pairKey(), anna()), publications.ErrConflict,
			"it is ACTIVE, not paused",
		},
		"pause a pair that is not": {publications.Suspend(t.Context(), pool, publications.Key{Topic: "x", Publisher: "y"}, 0,
			anna()), publications.ErrNotFound, "x/y"},
		"nobody": {
			publications.Suspend(t.Context(), pool, pairKey(), 0, publications.Act{}), nil,
			"the operator's name is missing",
		},
		"resolve without a reason":   {resolve, nil, "a reason is missing"},
		"retry nothing":              {retry, publications.ErrNotFound, "no parked event"},
		"reset to a future position": {ahead, nil, "the journal has positions from 0 to 3"},
	} {
		if test.err == nil || test.is != nil && !errors.Is(test.err, test.is) ||
			!strings.Contains(test.err.Error(), test.says) {
			t.Errorf("%s: got %v", name, test.err)
		}
	}
	if n := query[int](t, pool, "SELECT count(*) FROM tidemark.operator_log"); n != 0 {
		t.Errorf("%d acts stand in the log", n)
	}
}

func TestResetTakesAPairBackAndAhead(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	appendTo(t, pool, 10, "a")
	between := query[time.Time](t, pool, "SELECT clock_timestamp()")
	appendTo(t, pool, 10, "a")
	stop := start(t, quick(pool, sink))
	eventually(t, "all has arrived", func() bool { return position(t, pool) == 20 })
	for _, test := range []struct {
		to   publications.ResetTo
		want publications.ResetResult
	}{
		{publications.ResetTo{Position: ptr(int64(5)), DryRun: true}, publications.ResetResult{From: 20, To: 5, Sent: 15}},
		{publications.ResetTo{Time: between, DryRun: true}, publications.ResetResult{From: 20, To: 10, Sent: 10}},
		{publications.ResetTo{Time: between}, publications.ResetResult{From: 20, To: 10, Sent: 10}},
	} {
		got, err := publications.Reset(t.Context(), pool, pairKey(), test.to, anna())
		if err != nil || got != test.want {
			t.Errorf("%+v: got %+v, %v", test.to, got, err)
		}
	}
	eventually(t, "ten have arrived again", func() bool { return len(sink.Received()) == 30 && position(t, pool) == 20 })
	stop()
	appendTo(t, pool, 10, "a")
	if got, err := publications.Reset(t.Context(), pool, pairKey(), publications.ResetTo{Position: ptr(int64(25))},
		anna()); err != nil || got.Skipped != 5 || got.Sent != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	start(t, quick(pool, sink))
	eventually(t, "the last five have arrived", func() bool { return len(sink.Received()) == 35 })
	if last := sink.Received()[30].Seq; last != 26 {
		t.Errorf("it went on with event %d", last)
	}
	if n := query[int](t, pool, "SELECT count(*) FROM tidemark.operator_log WHERE act = 'publisher_reset'"); n != 2 {
		t.Errorf("the log has %d acts, dry runs are none", n)
	}
}

func TestANewPairStartsWhereItIsTold(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendTo(t, pool, 5, "a")
	at := query[time.Time](t, pool, "SELECT clock_timestamp()")
	appendTo(t, pool, 5, "a")
	for name, test := range map[string]struct {
		start publisher.Start
		first int64
	}{
		"beginning": {publisher.Start{}, 1}, "end": {publisher.Start{End: true}, 11},
		"position": {publisher.Start{After: 7}, 8}, "time": {publisher.Start{At: at}, 6},
		"a time to come": {publisher.Start{At: at.Add(time.Hour)}, 11},
	} {
		mustExec(t, pool, "TRUNCATE tidemark.readers")
		sink := &memory.Sink{}
		stop := start(t, quick(pool, sink, func(_ *publisher.Config, p *publisher.Publisher) { p.Start = test.start }))
		eventually(t, "it is registered", func() bool { return position(t, pool) >= 0 })
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		appended, err := journal.Journal{}.Append(t.Context(), tx, name, journal.Any, event.Event{Type: "noted"})
		if err = errors.Join(err, tx.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it publishes", func() bool {
			r := sink.Received()
			return len(r) > 0 && r[len(r)-1].Position == appended[0].Position
		})
		stop()
		first := sink.Received()[0].Position
		if test.first == 11 {
			test.first = appended[0].Position
		}
		if first != test.first {
			t.Errorf("%s: the first event was at position %d, want %d", name, first, test.first)
		}
	}
}

// A relay that has lost a pair no longer writes to it, whatever it has sent.
func TestAPairThatWasTakenOverIsNotMoved(t *testing.T) {
	t.Parallel()
	for _, refuse := range []bool{false, true} {
		t.Run(fmt.Sprintf("refuse %t", refuse), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			sink := &memory.Sink{Refuse: func(e publisher.Event) (error, bool) {
				if e.Seq == 1 {
					mustExec(t, pool,
						"UPDATE tidemark.readers SET owner = 'another', generation = generation + 1, expires_at = now() + "+
							"interval '50 seconds'")
				}
				if refuse {
					return errRefused, true
				}
				return nil, false
			}}
			appendTo(t, pool, 3, "a")
			stop := start(t, quick(pool, sink, func(c *publisher.Config, _ *publisher.Publisher) { c.LeaseTTL = time.Minute }))
			eventually(t, "it was taken over", func() bool {
				return query[int](t, pool, "SELECT count(*) FROM tidemark.readers WHERE owner = 'another'") == 1
			})
			eventually(t, "the relay knows", func() bool {
				return query[int](t, pool,
					"SELECT count(*) FROM tidemark.relays WHERE pairs_held = 0 AND seen_at > started_at + interval '1 second'") == 1
			})
			stop()
			if got := query[string](t, pool,
				"SELECT position || ' ' || owner || ' ' || (expires_at > now()) FROM tidemark.readers"); got != "0 another true" {
				t.Errorf("the pair is %s", got)
			}
			if n := query[int](t, pool, "SELECT count(*) FROM tidemark.parked"); n != 0 {
				t.Errorf("%d events were parked", n)
			}
		})
	}
}

func TestEventsArriveAsTheCatalogueSaysTheyAreToday(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	for _, version := range []int{1, 2, 3} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, fmt.Sprint("c", version), journal.Any,
				event.Event{Type: "renamed", Version: version, Payload: []byte(`{"a": 1}`)})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	catalogue, err := yamlfile.Load(fstest.MapFS{"c.yaml": {Data: []byte("types:\n  named:\n    version: 2\n   " +
		" aliases: [renamed]\n    upcast: {1: [{rename: {a: b}}]}\n")}}, "c.yaml")
	if err != nil {
		t.Fatal(err)
	}
	start(t, quick(pool, sink, func(c *publisher.Config, _ *publisher.Publisher) {
		c.Catalogue = catalogue
		c.Topics[0].EventTypes = []string{"named", "renamed"}
	}))
	eventually(t, "what can be read has arrived", func() bool { return len(sink.Received()) == 2 })
	if got := string(sink.Received()[0].Payload); !strings.Contains(got, `"b"`) {
		t.Errorf("the payload is %s", got)
	}
	eventually(t, "what cannot is parked", func() bool {
		return query[int](t, pool,
			"SELECT count(*) FROM tidemark.parked WHERE campaign_id = 'c3' AND status = 'parked' AND error_message LIKE "+
				"'%version 3%'") == 1
	})
}

// A reset deletes the parked events after the new position, because the pair meets them again. It
// keeps all others.
func TestAResetForgetsWhatIsParkedBehindIt(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var lifted atomic.Bool
	sink := &memory.Sink{Refuse: func(e publisher.Event) (error, bool) {
		if e.Seq == 2 && !lifted.Load() {
			return errRefused, true
		}
		return nil, false
	}}
	appendTo(t, pool, 3, "early", "late") // at positions 1 to 3, and 4 to 6
	start(t, quick(pool, sink))
	eventually(t, "both are parked", func() bool {
		return query[int](t, pool, "SELECT count(*) FROM tidemark.parked WHERE status = 'parked'") == 2 &&
			position(t, pool) == 6
	})
	lifted.Store(true)
	got, err := publications.Reset(t.Context(), pool, pairKey(), publications.ResetTo{Position: ptr(int64(3))}, anna())
	if want := (publications.ResetResult{From: 6, To: 3, Sent: 3, Forgotten: 1}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	eventually(t, "the late one has arrived", func() bool { return fmt.Sprint(of(sink, "late")) == "[1 1 2 3]" })
	if got := fmt.Sprint(of(sink, "early")); got != "[1]" ||
		query[string](t, pool,
			"SELECT string_agg(campaign_id || ' ' || status, ', ') FROM tidemark.parked") != "early parked" {
		t.Errorf("of the early one %s has arrived", got)
	}
}
