package projector_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// order is the state of an order.
type order struct {
	Placed, Paid bool
	Seen         int
}

// orders reserves stock when an order is placed, and cancels the order unless it is paid in time.
func orders(change func(*projection.Process[order])) projection.Process[order] {
	p := projection.Process[order]{
		Name: "orders", Version: 1, Types: []string{"placed", "paid", "reminded"},
		Key: func(e event.Event) (string, error) { return e.CampaignID, nil },
		Fold: func(o *order, e event.Event) error {
			o.Placed, o.Paid = o.Placed || e.Type == "placed", o.Paid || e.Type == "paid"
			o.Seen++
			return nil
		},
		React: []projection.Reaction[order]{
			projection.React("placed", func(_ *order, e event.Event, _ struct{}) ([]projection.Do, error) {
				payload := json.RawMessage(fmt.Sprintf(`{"order": %q}`, e.CampaignID))
				return []projection.Do{
					{Campaign: "stock", Events: []event.Event{{Type: "reserved", Payload: payload}}},
					{Events: []event.Event{{Type: "expired"}}, Timer: "payment", At: e.RecordedAt.Add(time.Hour)},
				}, nil
			}),
			projection.React("reminded", func(_ *order, e event.Event, _ struct{}) ([]projection.Do, error) {
				return []projection.Do{{
					Campaign: e.CampaignID, Events: []event.Event{{Type: "expired"}}, Timer: "payment",
					At: e.RecordedAt.Add(2 * time.Hour),
				}}, nil
			}),
			projection.React("paid", func(*order, event.Event, struct{}) ([]projection.Do, error) {
				return []projection.Do{{Timer: "payment", Cancel: true}}, nil
			}),
		},
	}
	if change != nil {
		change(&p)
	}
	return p
}

func TestTimersOfDifferentKeysAreSetSideBySide(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	keys := []string{"room", "room/7", "room%2F7", "7:room", "%", "/", "é", "日/本", "room/7/seat"}
	process := orders(func(p *projection.Process[order]) {
		p.React[0] = projection.React("placed", func(_ *order, e event.Event, _ struct{}) ([]projection.Do, error) {
			var todo []projection.Do
			for _, timer := range []string{"seat", "7/seat", "/", "%2F", "seat/seat"} {
				todo = append(todo, projection.Do{
					Campaign: e.CampaignID, Events: []event.Event{{Type: "expired"}}, Timer: timer, At: e.RecordedAt.Add(time.Hour),
				})
			}
			return todo, nil
		})
	})
	drain(t, workerOf(t, pool, nil, process))
	for _, key := range keys {
		appendEvents(t, pool, key, event.Event{Type: "placed"})
	}
	drain(t, workerOf(t, pool, nil, process))
	if n := query[int](t, pool, `SELECT count(*)::int FROM tidemark.scheduled`); n != 5*len(keys) {
		t.Errorf("%d timers are set, want %d", n, 5*len(keys))
	}
}

// fire makes the appends that are due, as a worker does, and returns their number.
func fire(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return query[int](t, pool, `SELECT fired::int FROM tidemark.fire_scheduled(500, NULL, '-infinity', NULL, '{}', NULL, false)`)
}

func expectScheduled(t *testing.T, pool *pgxpool.Pool, want string) {
	t.Helper()
	expectText(t, pool, "scheduled", want, `SELECT coalesce(string_agg(concat_ws(' ', campaign_id,
		events -> 0 ->> 'type', timer, scheduled_by, (extract(epoch FROM date_trunc('minute', due_at - scheduled_at
			+ interval '30 s')) / 60)::int), ', ' ORDER BY id), '') FROM tidemark.scheduled`)
}

func TestAProcessReactsOnceByAppendingAndSetsTimers(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	process := orders(nil)
	worker := func() *projector.Projector { return workerOf(t, pool, nil, process) }
	drain(t, worker())
	appendEvents(t, pool, "o1", event.Event{Type: "placed"})
	appendEvents(t, pool, "o2", event.Event{Type: "placed"})
	drain(t, worker())
	expectScheduled(t, pool, "stock reserved orders 0, o1 expired orders/2:o1/payment orders 60, "+
		"stock reserved orders 0, o2 expired orders/2:o2/payment orders 60")
	if n := fire(t, pool); n != 2 {
		t.Errorf("%d appends are made, want the two that are due", n)
	}
	appendEvents(t, pool, "o1", event.Event{Type: "paid"})
	appendEvents(t, pool, "o2", event.Event{Type: "reminded"})
	drain(t, worker())
	expectScheduled(t, pool, "o2 expired orders/2:o2/payment orders 120")
	for range 2 {
		drain(t, worker())
		if n := fire(t, pool); n != 0 {
			t.Errorf("%d appends are made again", n)
		}
	}
	state, found, err := process.Get(t.Context(), pool, "o1")
	if err != nil || !found || state != (order{Placed: true, Paid: true, Seen: 2}) {
		t.Errorf("state %+v, %v, %v", state, found, err)
	}
	causes := query[string](t, pool, `SELECT string_agg(concat_ws(' ', r.payload ->> 'order', r.metadata ->> 'causation_depth',
		r.metadata ->> 'causation_id' = p.event_id || '/' || p.campaign_id,
		r.metadata ->> 'correlation_id' = r.metadata ->> 'causation_id'), ', ' ORDER BY r.seq)
		FROM tidemark.journal r JOIN tidemark.journal p ON p.event_type = 'placed' AND p.campaign_id = r.payload ->> 'order'
		WHERE r.event_type = 'reserved'`)
	if causes != "o1 1 t t, o2 1 t t" {
		t.Errorf("causes: %s", causes)
	}
}

func TestANewProcessDoesNotReactToThePast(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]*int64{"end": nil, "second": new(int64)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			for i := range 3 {
				appendEvents(t, pool, fmt.Sprint("o", i), event.Event{Type: "placed"})
			}
			want := 1
			if from != nil {
				*from, want = 1, 3
			}
			process := orders(func(p *projection.Process[order]) { p.From = from })
			p := workerOf(t, pool, nil, process)
			drain(t, p)
			appendEvents(t, pool, "o3", event.Event{Type: "placed"})
			drain(t, p)
			if n := fire(t, pool); n != want {
				t.Errorf("it reacted to %d events, want %d", n, want)
			}
			for i := range 4 {
				if state, _, err := process.Get(t.Context(), pool, fmt.Sprint("o", i)); err != nil || !state.Placed {
					t.Errorf("order %d is %+v, %v", i, state, err)
				}
			}
		})
	}
}

func TestAChainOfReactionsEnds(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	echo := projection.Process[int]{
		Name: "echo", Version: 1, Types: []string{"ping"},
		Key:  func(e event.Event) (string, error) { return e.CampaignID, nil },
		Fold: func(n *int, _ event.Event) error { *n++; return nil },
		React: []projection.Reaction[int]{
			projection.React("ping", func(_ *int, _ event.Event, _ struct{}) ([]projection.Do, error) {
				return []projection.Do{{Campaign: "a", Events: []event.Event{{Type: "ping"}}}}, nil
			}),
		},
	}
	p := workerOf(t, pool, nil, echo)
	drain(t, p)
	appendEvents(t, pool, "a", event.Event{Type: "ping"})
	fired := 0
	for range 30 {
		drain(t, p)
		fired += fire(t, pool)
	}
	if fired != 16 {
		t.Errorf("the chain has %d reactions, want 16", fired)
	}
	expectPairs(t, pool, "a echo 17 dead 1 permanent error never")
	if message := query[string](t, pool, `SELECT error_message FROM tidemark.failed`); strings.Count(message, "ping") != 17 ||
		!strings.Contains(message, "the limit is 16") {
		t.Errorf("message: %s", message)
	}
}

func TestAnExpectationThatDoesNotHoldIsAnEventOrAFailure(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	at := int64(1)
	moves := projection.Process[int]{
		Name: "moves", Version: 1, Types: []string{"asked"},
		Key:  func(e event.Event) (string, error) { return e.CampaignID, nil },
		Fold: func(n *int, _ event.Event) error { *n++; return nil },
		React: []projection.Reaction[int]{
			projection.React("asked", func(_ *int, e event.Event, _ struct{}) ([]projection.Do, error) {
				do := projection.Do{Campaign: "game", Events: []event.Event{{Type: "moved"}, {Type: "drawn"}}, Expect: &at}
				if e.CampaignID == "told" {
					do.Refused = "move_refused"
				}
				return []projection.Do{do}, nil
			}),
		},
	}
	p := workerOf(t, pool, nil, moves)
	appendEvents(t, pool, "game", event.Event{Type: "began"})
	drain(t, p)
	for _, campaign := range []string{"first", "told", "silent"} {
		appendEvents(t, pool, campaign, event.Event{Type: "asked"})
	}
	drain(t, p)
	fire(t, pool)
	expectText(t, pool, "game", `began, moved, drawn, move_refused {"type": "moved", "actual": 3, "expected": 1} 1`, `SELECT
		string_agg(concat_ws(' ', event_type, nullif(payload, '{}'), CASE WHEN event_type = 'move_refused' THEN
			metadata ->> 'causation_depth' END), ', ' ORDER BY seq) FROM tidemark.journal WHERE campaign_id = 'game'`)
	expectText(t, pool, "scheduled", "game 1 campaign game is at seq 4, the append expects it at 1", `SELECT
		concat_ws(' ', campaign_id, attempts, error) FROM tidemark.scheduled`)
}

func TestAReactionThatIsRefusedFailsItsKey(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	process := orders(func(p *projection.Process[order]) {
		p.React[0] = projection.React("placed", func(_ *order, e event.Event, _ struct{}) ([]projection.Do, error) {
			if e.CampaignID == "bad" {
				return []projection.Do{{Events: []event.Event{{Type: ""}}}}, nil
			}
			return []projection.Do{{Campaign: "good", Events: []event.Event{{Type: "x"}}}}, nil
		})
	})
	p := workerOf(t, pool, nil, process)
	drain(t, p)
	for _, id := range []string{"a", "bad", "b"} {
		appendEvents(t, pool, id, event.Event{Type: "placed"})
	}
	drain(t, p)
	if n := fire(t, pool); n != 2 {
		t.Errorf("%d appends, want 2", n)
	}
	if _, found, err := process.Get(t.Context(), pool, "bad"); found || err != nil {
		t.Errorf("the state of the failed key was written: %v, %v", found, err)
	}
	if s := query[string](t, pool, `SELECT concat_ws(' ', campaign_id, projection, next_seq) FROM tidemark.failed`); s != "bad orders 2" {
		t.Errorf("failed: %s", s)
	}
}
