package projector_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

var errPassing = errors.New("the weather is bad")

func TestAFailureBecomesWhatItsClassAndThePolicySay(t *testing.T) {
	t.Parallel()
	onBad := func(cause error) func(*projection.Group, event.Event, moved) error {
		return func(_ *projection.Group, _ event.Event, m moved) error {
			if m.By < 0 {
				return cause
			}
			return nil
		}
	}
	queueing := func(sql string) func(*projection.Group, event.Event, moved) error {
		return func(g *projection.Group, _ event.Event, m moved) error {
			if m.By < 0 {
				g.Queue(sql)
			}
			return nil
		}
	}
	tests := []struct {
		name    string
		spec    func(*projection.Spec)
		fail    func(*projection.Group, event.Event, moved) error
		events  []event.Event // default: moves of 1, -1, 2
		retries int
		pairs   string
		log     string
		applied string
		pauses  string
	}{
		{
			name: "a transient failure waits for its next attempt", fail: onBad(errPassing),
			pairs: "c picky 2 failed 1 transient error", log: "failed 2 1", applied: "1",
		},
		{
			name: "eight of them are the end", fail: onBad(errPassing), retries: 9,
			pairs: "c picky 2 dead 8 transient error never", applied: "1",
			log: "failed 2 1, failed 2 2, failed 2 3, failed 2 4, failed 2 5, failed 2 6, failed 2 7, dead 2 8",
		},
		{
			name: "as many as the policy says", fail: onBad(errPassing), retries: 3, spec: func(s *projection.Spec) {
				s.OnFailure.Attempts = 2
			},
			pairs: "c picky 2 dead 2 transient error never", log: "failed 2 1, dead 2 2", applied: "1",
		},
		{
			name: "an error that the projection calls permanent is the end at once",
			fail: onBad(projection.Permanent(errPassing)), retries: 1,
			pairs: "c picky 2 dead 1 permanent error never", log: "dead 2 1", applied: "1",
		},
		{
			name: "so is a violated constraint", fail: queueing(`INSERT INTO picky VALUES ('c', 9, DEFAULT, 1000)`),
			pairs: "c picky 2 dead 1 permanent 23514 never", log: "dead 2 1", applied: "1",
		},
		{
			name: "so is a value that the database refuses", fail: queueing(`SELECT 1/0`),
			pairs: "c picky 2 dead 1 permanent 22012 never", log: "dead 2 1", applied: "1",
		},
		{
			name: "so is a panic", fail: func(_ *projection.Group, _ event.Event, m moved) error {
				return []error{nil, nil, nil}[m.By+1]
			},
			events: moves(1, 4, 2), pairs: "c picky 2 dead 1 permanent panic never", log: "dead 2 1", applied: "1",
		},
		{
			name: "so is a payload that cannot be decoded", fail: onBad(nil),
			events: []event.Event{moves(1)[0], {Type: "moved", Payload: json.RawMessage(`{"by": "far"}`)}},
			pairs:  "c picky 2 dead 1 permanent decode never", log: "dead 2 1", applied: "1",
		},
		{
			name: "so is a version that the catalogue does not know", fail: onBad(nil),
			events: []event.Event{moves(1)[0], {Type: "noted", Version: 3}},
			pairs:  "c picky 2 dead 1 permanent decode never", log: "dead 2 1", applied: "1",
		},
		{
			name: "so is an event that its upcaster refuses", fail: onBad(nil),
			events: []event.Event{moves(1)[0], {Type: "noted", Version: 1, Payload: json.RawMessage(`{"by": 1}`)}},
			pairs:  "c picky 2 dead 1 permanent decode never", log: "dead 2 1", applied: "1",
		},
		{
			name:    "what others have locked is soon free",
			fail:    queueing(`DO $$ BEGIN RAISE 'canceling statement due to lock timeout' USING ERRCODE = '55P03'; END $$`),
			retries: 2,
			pairs:   "c picky 2 failed 0 lock 55P03", log: "failed 2 0", applied: "1",
		},
		{
			name: "a deadlock is soon over, whatever becomes of events that fail",
			fail: queueing(`DO $$ BEGIN RAISE 'deadlock detected' USING ERRCODE = '40P01'; END $$`), retries: 1,
			spec:  func(s *projection.Spec) { s.OnFailure.Action = projection.ActionSkip },
			pairs: "c picky 2 failed 0 lock 40P01", log: "failed 2 0", applied: "1",
		},
		{
			name: "a table that is missing may come", fail: queueing(`SELECT FROM nowhere`),
			pairs: "c picky 2 failed 1 transient 42P01", log: "failed 2 1", applied: "1",
		},
		{
			name: "the projection's own classifier decides before the default", fail: onBad(errPassing),
			spec: func(s *projection.Spec) {
				s.Classify = func(err error) projection.Class {
					if errors.Is(err, errPassing) {
						return projection.ClassPermanent
					}
					return ""
				}
			},
			pairs: "c picky 2 dead 1 permanent error never", log: "dead 2 1", applied: "1",
		},
		{
			name:  "what it does not know is left to the default, and so is all if it panics",
			fail:  onBad(projection.Permanent(errPassing)),
			spec:  func(s *projection.Spec) { s.Classify = func(error) projection.Class { panic("no idea") } },
			pairs: "c picky 2 dead 1 permanent error never", log: "dead 2 1", applied: "1",
		},
		{
			name: "dead at once", fail: onBad(errPassing), spec: func(s *projection.Spec) {
				s.OnFailure.Action = projection.ActionDead
			},
			pairs: "c picky 2 dead 1 transient error never", log: "dead 2 1", applied: "1",
		},
		{
			name: "skipped", fail: onBad(errPassing), spec: func(s *projection.Spec) {
				s.OnFailure.Action = projection.ActionSkip
			},
			events: moves(1, -1, 2, -1, -1, 3), log: "skipped 2 1, skipped 4 1, skipped 5 1", applied: "1 3 6",
		},
		{
			name: "paused, however permanent", fail: onBad(projection.Permanent(errPassing)), spec: func(s *projection.Spec) {
				s.OnFailure.Action = projection.ActionPause
			},
			pairs: "c picky 2 failed 1 permanent error", log: "failed 2 1, paused", applied: "1", retries: 2,
			pauses: `picky: event 2 (moved) of campaign "c" failed: the weather is bad`,
		},
		{
			name: "one type by its own policy", fail: func(_ *projection.Group, e event.Event, _ moved) error {
				if e.Seq > 1 {
					return errPassing
				}
				return nil
			},
			spec: func(s *projection.Spec) {
				s.OnFailureOf = map[string]projection.Policy{"noted": {Action: projection.ActionSkip}}
			},
			events: []event.Event{moves(1)[0], {Type: "noted"}, moves(2)[0]},
			pairs:  "c picky 3 failed 1 transient error", log: "skipped 2 1, failed 3 1", applied: "1",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			types, err := catalogue.New(catalogue.EventType{
				Name: "noted", Version: 2,
				Upcast: map[int]catalogue.Upcaster{1: catalogue.Convert(refuseBy)},
			})
			if err != nil {
				t.Fatal(err)
			}
			events := test.events
			if events == nil {
				events = moves(1, -1, 2)
			}
			appendEvents(t, pool, "c", events...)
			p := workerOf(t, pool, func(cfg *projector.Config) { cfg.Catalogue = types },
				newPicky(test.spec).failWith(test.fail))
			drain(t, p)
			for range test.retries {
				retry(t, pool, p)
			}
			expectPairs(t, pool, test.pairs)
			expectLog(t, pool, test.log)
			expectApplied(t, pool, "c", test.applied)
			expectText(t, pool, "pauses", test.pauses, `SELECT string_agg(name || ': ' || reason, ', ') FROM tidemark.pauses`)
			if n := query[int](t, pool, `SELECT count(*) FROM tidemark.outbox`); n != 0 {
				t.Errorf("%d work items are left in the hot queue", n)
			}
		})
	}
}

func TestAFailureHoldsBackOneProjectionOfOneCampaign(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if err := outbox.Register(t.Context(), pool, "default"); err != nil {
		t.Fatal(err)
	}
	appendMoves(t, pool, "a", 1, 2, -1, 3)
	appendMoves(t, pool, "b", 1, 2)
	p := workerOf(t, pool, nil, counters(), newPicky(nil).failWith(failNegative), ledger())
	drain(t, p)
	appendMoves(t, pool, "a", 4, 5)
	appendMoves(t, pool, "b", 3)
	drain(t, p)
	expectPairs(t, pool, "a picky 3 failed 1 transient error")
	expectApplied(t, pool, "a", "1 2")
	expectApplied(t, pool, "b", "1 2 3")
	if n := query[int](t, pool, `SELECT count(*) FROM ledger`); n != 9 {
		t.Errorf("another projection has %d rows, want those of all 9 events", n)
	}
	if sum := query[int](t, pool, `SELECT (doc->>'sum')::int FROM counters WHERE campaign_id = 'a'`); sum != 14 {
		t.Errorf("another projection has the sum %d, want 14", sum)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.outbox`); n != 0 {
		t.Errorf("the hot queue has %d rows more", n)
	}
	expectText(t, pool, "checkpoints", "a 6, b 3", `SELECT string_agg(campaign_id || ' ' || checkpoint, ', ' ORDER BY 1)
		FROM tidemark.leases`)
}

func TestAFixedProjectionAppliesAllThatWaitedInOrder(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	h := newPicky(nil).failWith(failNegative)
	p := workerOf(t, pool, nil, h)
	appendMoves(t, pool, "a", 1, -1, 2, 3)
	drain(t, p)
	appendMoves(t, pool, "a", 4, 5)
	retry(t, pool, p)
	h.heal()
	retry(t, pool, p)
	expectPairs(t, pool, "")
	expectLog(t, pool, "failed 2 1, failed 2 2, recovered 2 2")
	expectApplied(t, pool, "a", "1 2 3 4 5 6")
}

func TestAPairGoesOnOnceItsPolicyIsToSkip(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendMoves(t, pool, "a", 1, -1, 2)
	drain(t, workerOf(t, pool, nil, newPicky(nil).failWith(failNegative)))
	retry(t, pool, workerOf(t, pool, nil, newPicky(func(s *projection.Spec) {
		s.OnFailure.Action = projection.ActionSkip
	}).failWith(failNegative)))
	expectPairs(t, pool, "")
	expectLog(t, pool, "failed 2 1, skipped 2 2")
	expectApplied(t, pool, "a", "1 3")
}

func TestAProjectionThatPausedItselfCatchesUpWhenItIsResumed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	h := newPicky(func(s *projection.Spec) { s.OnFailure.Action = projection.ActionPause }).failWith(failNegative)
	p := workerOf(t, pool, func(cfg *projector.Config) { cfg.Concurrency, cfg.GroupEvents = 1, 1 }, h, ledger())
	appendMoves(t, pool, "a", -1, 1)
	drain(t, p)
	appendMoves(t, pool, "b", -1, 2)
	retry(t, pool, p)
	expectPairs(t, pool, "a picky 1 failed 1 transient error, b picky 1 catching_up 0")
	expectLog(t, pool, "failed 1 1, paused")
	if n := query[int](t, pool, `SELECT count(*) FROM ledger`); n != 4 {
		t.Errorf("another projection has %d rows, want 4", n)
	}
	h.heal()
	exec(t, pool, `DELETE FROM tidemark.pauses`)
	retry(t, pool, p)
	expectPairs(t, pool, "")
	expectApplied(t, pool, "a", "1 2")
	expectApplied(t, pool, "b", "1 2")
}

func TestAPoisonedCampaignAmongAThousandIsTheOnlyOneThatStops(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	batches := make([]journal.Batch, 1000)
	for i := range batches {
		batches[i] = journal.Batch{CampaignID: fmt.Sprint("c", i), Events: moves(1, 2)}
	}
	batches[500].Events = moves(-1, 2)
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.AppendAll(t.Context(), tx, batches...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	drain(t, workerOf(t, pool, nil, counters(), newPicky(nil).failWith(failNegative)))
	expectPairs(t, pool, "c500 picky 1 failed 1 transient error")
	if n := query[int](t, pool, `SELECT count(*) FROM picky`); n != 1998 {
		t.Errorf("%d events are applied, want those of 999 campaigns", n)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM counters WHERE (doc->>'count')::int = 2`); n != 1000 {
		t.Errorf("another projection has applied both events of %d campaigns, want 1000", n)
	}
}

func TestOneCulpritAmongManyIsFoundInFewAttempts(t *testing.T) {
	t.Parallel()
	for name, named := range map[string]bool{"where the error says which it is": true, "where it does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			var calls int
			h := projectionFunc{newPicky(nil).spec, func(g *projection.Group) error {
				calls++
				for _, e := range g.Events {
					if named {
						g.At(e)
					}
					if e.Seq == 333 {
						return errPassing
					}
					g.Queue(`INSERT INTO picky (campaign_id, seq) VALUES ($1, $2)`, e.CampaignID, e.Seq)
				}
				return nil
			}}
			by := make([]int, 900)
			appendMoves(t, pool, "a", by[:450]...)
			appendMoves(t, pool, "a", by[450:]...)
			drain(t, workerOf(t, pool, nil, h))
			expectPairs(t, pool, "a picky 333 failed 1 transient error")
			if n := query[int](t, pool, `SELECT count(*) FROM picky`); n != 332 {
				t.Errorf("%d events are applied, want the 332 before it", n)
			}
			if most := map[bool]int{true: 4, false: 24}[named]; calls > most {
				t.Errorf("it took %d attempts, want %d at most", calls, most)
			}
		})
	}
}

func TestNothingOfAPayloadGetsIntoWhatIsKept(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*projection.Group, event.Event) error{
		"by a message of Postgres": func(g *projection.Group, e event.Event) error {
			g.Queue(`SELECT ($1::jsonb->>'name')::integer`, string(e.Payload))
			return nil
		},
		"by its detail": func(g *projection.Group, e event.Event) error {
			g.Queue(`INSERT INTO names VALUES ($1::jsonb->>'name'), ($1::jsonb->>'name')`, string(e.Payload))
			return nil
		},
		"by the projection's own error": func(_ *projection.Group, e event.Event) error {
			return fmt.Errorf("bad event %s", e.Payload)
		},
		"by a value in it": func(*projection.Group, event.Event) error {
			return errors.New("no player Xanadu 4711471147114711")
		},
		"by a panic": func(_ *projection.Group, e event.Event) error { panic(string(e.Payload)) },
		"by a decoder": func(_ *projection.Group, e event.Event) error {
			var v struct {
				Name time.Time `json:"name"`
			}
			return json.Unmarshal(e.Payload, &v)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			spec := projection.Spec{Name: "picky", Version: 1, Tables: `CREATE TABLE names (name text PRIMARY KEY,
				campaign_id text UNIQUE)`}
			appendEvents(t, pool, "a", event.Event{
				Type:    "noted",
				Payload: json.RawMessage(`{"name": "Xanadu", "n": 4711471147114711}`),
			})
			drain(t, workerOf(t, pool, nil, projectionFunc{spec, func(g *projection.Group) error {
				g.At(g.Events[0])
				return fail(g, g.Events[0])
			}}))
			kept := query[string](t, pool, `SELECT concat_ws(' ', (SELECT d FROM tidemark.failed d),
				(SELECT l FROM tidemark.failure_log l))`)
			if strings.Contains(kept, "Xanadu") || strings.Contains(kept, "47114711") {
				t.Errorf("kept: %s", kept)
			}
			if !strings.Contains(kept, "noted") {
				t.Errorf("nothing was kept: %s", kept)
			}
		})
	}
}
