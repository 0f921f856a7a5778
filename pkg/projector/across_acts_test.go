package projector_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// table is a database with projections across campaigns that refuse bob's event with -1 points.
type table struct {
	*testing.T
	pool    *pgxpool.Pool
	keyed   bool
	names   []string
	refuses atomic.Bool
	at      int64 // position of the event that is refused
}

const rejected = -1

// key is what is held back by the event that is refused.
func (b *table) key() string {
	if b.keyed {
		return "bob"
	}
	return "-"
}

func (b *table) worker(attempts int) *projector.Projector {
	var projections []projection.Projection
	for _, name := range b.names {
		d := projection.Document[standing]{
			Name: name, Version: 1, Types: []string{"scored"}, Scope: projection.ScopeJournal,
			OnFailure: projection.Policy{Attempts: attempts},
			Fold: func(doc *standing, e event.Event) error {
				p, err := event.Decode[scored](e)
				doc.add(e, p.Points)
				if p.Points == rejected && b.refuses.Load() {
					return errRefused
				}
				return err
			},
		}
		if b.keyed {
			d.Partitions = 2
			d.Key = func(e event.Event) (string, error) {
				p, err := event.Decode[scored](e)
				return p.Player, err
			}
		}
		projections = append(projections, d)
	}
	return workerOf(b.T, b.pool, func(cfg *projector.Config) { cfg.GroupEvents, cfg.LeaseTTL = 7, 2*time.Second }, projections...)
}

func newTable(t *testing.T, keyed bool, names ...string) *table {
	t.Helper()
	b := &table{T: t, pool: pgtest.New(t), keyed: keyed, names: names}
	b.more()
	score(t, b.pool, "game1", scored{"bob", rejected})
	b.at = query[int64](t, b.pool, `SELECT max(position) FROM tidemark.journal`)
	b.more()
	return b
}

func (b *table) more() {
	for i := range 5 {
		score(b.T, b.pool, fmt.Sprint("game", i%3), scored{"ann", i + 1}, scored{"bob", i + 1}, scored{fmt.Sprint("p", i), 1})
	}
}

func (b *table) within(do func(tx pgx.Tx) error) error { return pgx.BeginFunc(b.Context(), b.pool, do) }

func (b *table) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func byAda() failed.Act { return failed.Act{By: "ada", Reason: "a test"} }

func (b *table) resolve(name string) error {
	return b.within(func(tx pgx.Tx) error {
		return failed.Resolve(b.Context(), tx, failed.Key{Projection: name, CampaignID: b.key()}, b.at, byAda())
	})
}

func (b *table) unresolve(name string) error {
	return b.within(func(tx pgx.Tx) error {
		return failed.Unresolve(b.Context(), tx, failed.Key{Projection: name, CampaignID: b.key()}, b.at, byAda())
	})
}

func (b *table) replay(name string, keys ...string) error {
	return b.within(func(tx pgx.Tx) (err error) {
		r := failed.ReplayRequest{Group: "default", Projection: name, Campaigns: keys}
		if len(keys) == 0 {
			_, _, err = failed.ReplayAll(b.Context(), tx, r, "", 0, byAda())
			return err
		}
		_, err = failed.Replay(b.Context(), tx, r, byAda())
		return err
	})
}

// many does an act on what a filter chooses.
func (b *table) many(
	name string, do func(context.Context, pgx.Tx, []failed.Place, failed.Act) ([]failed.Key, error),
) error {
	return b.within(func(tx pgx.Tx) error {
		places, err := failed.Choose(b.Context(), tx, failed.Filter{Projection: name})
		if err == nil {
			_, err = do(b.Context(), tx, places, byAda())
		}
		return err
	})
}

func (b *table) pause(name string) error {
	return b.within(func(tx pgx.Tx) error {
		return pause.Set(b.Context(), tx, pause.Target{Group: "default", Projection: name}, "ada", "", 0)
	})
}

func (b *table) resume(name string) error {
	return b.within(func(tx pgx.Tx) error {
		return pause.Resume(b.Context(), tx, pause.Target{Group: "default", Projection: name}, "ada", "")
	})
}

// keyState is a state of a key, and the way to reach it.
type keyState struct {
	name  string
	reach func(b *table)
}

func keyStates() []keyState {
	fail := func(attempts int) func(b *table) {
		return func(b *table) {
			b.refuses.Store(true)
			drain(b.T, b.worker(attempts))
		}
	}
	each := func(b *table, do func(name string) error) {
		for _, name := range b.names {
			b.must(do(name))
		}
	}
	resolved := func(b *table) {
		fail(9)(b)
		each(b, b.resolve)
	}
	return []keyState{
		{"no_row", func(b *table) { drain(b.T, b.worker(9)) }},
		{"failed", fail(9)},
		{"dead", fail(1)},
		{"catching_up", func(b *table) {
			drain(b.T, b.worker(9))
			each(b, func(name string) error { return b.replay(name, b.key()) })
		}},
		{"failed_in_a_rebuild", func(b *table) {
			drain(b.T, b.worker(9))
			each(b, func(name string) error { return b.replay(name, b.key()) })
			fail(9)(b)
		}},
		{"resolved", resolved},
		{"left_out", func(b *table) {
			resolved(b)
			drain(b.T, b.worker(9))
		}},
	}
}

// keyActs are acts, with the states that refuse them and the error.
func keyActs() []struct {
	name    string
	do      func(b *table, name string) error
	refused map[string]error
} {
	in := func(err error, states ...string) map[string]error {
		all := map[string]error{}
		for _, state := range states {
			all[state] = err
		}
		return all
	}
	with := func(one, other map[string]error) map[string]error {
		all := maps.Clone(one)
		maps.Copy(all, other)
		return all
	}
	notFailed := with(in(failed.ErrNotFound, "no_row", "left_out"), in(failed.ErrConflict, "catching_up", "resolved"))
	return []struct {
		name    string
		do      func(b *table, name string) error
		refused map[string]error
	}{
		{"apply", func(*table, string) error { return nil }, nil},
		{"requeue", func(b *table, name string) error {
			return b.within(func(tx pgx.Tx) error {
				return failed.Requeue(b.Context(), tx, failed.Key{Projection: name, CampaignID: b.key()}, byAda())
			})
		}, notFailed},
		{"requeue many", func(b *table, name string) error { return b.many(name, failed.RequeuePlaces) }, nil},
		{"resolve", (*table).resolve, notFailed},
		{"resolve many", func(b *table, name string) error { return b.many(name, failed.ResolvePlaces) }, nil},
		{"unresolve", (*table).unresolve, in(failed.ErrNotResolved, "no_row", "failed", "dead", "catching_up",
			"failed_in_a_rebuild")},
		{"replay", func(b *table, name string) error { return b.replay(name, b.key()) }, nil},
		{"replay all", func(b *table, name string) error {
			err := b.replay(name)
			if b.keyed && errors.Is(err, failed.ErrNotResettable) && strings.Contains(err.Error(), "rebuild it") {
				err = nil // it has two partitions
			}
			return err
		}, nil},
		{"resolve and unresolve", func(b *table, name string) error {
			if err := b.resolve(name); err != nil {
				return err
			}
			return b.unresolve(name)
		}, notFailed},
		{"pause", (*table).pause, nil},
		{"resume", func(b *table, name string) error {
			b.must(b.pause(name))
			drain(b.T, b.worker(9))
			return b.resume(name)
		}, nil},
	}
}

// TestEveryActInEveryStateOfAKeyEndsWithTheFoldOfTheJournal runs each act in each state of a key, and
// of a projection without keys. In the end the rows are the fold of the journal in the order of
// position without the events that are resolved.
func TestEveryActInEveryStateOfAKeyEndsWithTheFoldOfTheJournal(t *testing.T) {
	t.Parallel()
	for _, state := range keyStates() {
		for _, keyed := range []bool{true, false} {
			t.Run(fmt.Sprint(state.name, map[bool]string{true: "/key", false: "/projection"}[keyed]), func(t *testing.T) {
				t.Parallel()
				acts := keyActs()
				var names []string
				for i := range acts {
					names = append(names, fmt.Sprint("b", i))
				}
				b := newTable(t, keyed, names...)
				state.reach(b)
				for i, act := range acts {
					if err, want := act.do(b, names[i]), act.refused[state.name]; !errors.Is(err, want) {
						t.Errorf("%s: %v, want %v", act.name, err, want)
					}
				}
				b.settle()
				for i, act := range acts {
					b.compare(names[i], act.name)
				}
			})
		}
	}
}

// settle ends every pause, has the events applied that failed, and catches up.
func (b *table) settle() {
	b.Helper()
	b.more()
	drain(b.T, b.worker(9))
	b.refuses.Store(false)
	exec(b.T, b.pool, `DELETE FROM tidemark.pauses`)
	b.must(b.many("", failed.RequeuePlaces))
	drain(b.T, b.worker(9))
	expectPairs(b.T, b.pool, "")
	if n := query[int](b.T, b.pool, `SELECT count(*) FROM tidemark.leases WHERE campaign_id IN ('bob', '-')`); n != 0 {
		b.Errorf("%d keys have leases", n)
	}
	expectText(b.T, b.pool, "proof", "true", `SELECT bool_and(r.position = j.last_value AND r.applied = (SELECT count(*)
		FROM tidemark.journal) AND r.applied_hash = (SELECT bit_xor(uuid_hash_extended(event_id, 0)) FROM tidemark.journal))::text
		FROM tidemark.readers r CROSS JOIN tidemark.journal_position j`)
}

// compare compares a projection's rows with the fold of the journal.
func (b *table) compare(name, act string) {
	b.Helper()
	resolved := query[[]int64](b.T, b.pool, `SELECT coalesce(array_agg(seq), '{}') FROM tidemark.resolutions WHERE projection = $1`,
		name)
	want := map[string]standing{}
	for e, err := range journal.ReadAll(b.Context(), b.pool, 0) {
		b.must(err)
		if slices.Contains(resolved, e.Position) {
			continue
		}
		p, err := event.Decode[scored](e)
		b.must(err)
		key := "-"
		if b.keyed {
			key = p.Player
		}
		s := want[key]
		s.add(e, p.Points)
		want[key] = s
	}
	got := map[string]standing{}
	rows, err := b.pool.Query(b.Context(), `SELECT key, doc FROM tidemark_views.`+name)
	b.must(err)
	var key string
	var doc standing
	_, err = pgx.ForEachRow(rows, []any{&key, &doc}, func() error {
		got[key], doc = doc, standing{}
		return nil
	})
	b.must(err)
	if !maps.Equal(got, want) {
		b.Errorf("after %s, with %v resolved: %v\nwant: %v", act, resolved, got, want)
	}
}

// TestActsOnKeysWhileTheyAreApplied does acts at random while workers apply events.
func TestActsOnKeysWhileTheyAreApplied(t *testing.T) {
	t.Parallel()
	for _, keyed := range []bool{true, false} {
		t.Run(map[bool]string{true: "key", false: "projection"}[keyed], func(t *testing.T) {
			t.Parallel()
			b := newTable(t, keyed, "b0", "b1")
			b.refuses.Store(true)
			ctx, stop := context.WithCancel(t.Context())
			var done []chan error
			for range 2 {
				p := b.worker(9)
				end := make(chan error, 1)
				done = append(done, end)
				go func() { end <- p.Run(ctx) }()
			}
			random := rand.New(rand.NewPCG(1, 2))
			acts := keyActs()
			for i := range 40 {
				if i == 20 {
					b.refuses.Store(false)
				}
				within(t, "places are held", func() bool {
					return query[int64](t, b.pool, `SELECT count(*) FROM tidemark.readers WHERE expires_at > clock_timestamp()`) > 0
				})
				b.more()
				act := acts[random.IntN(len(acts))]
				if act.name == "resume" || act.name == "pause" {
					continue
				}
				err := act.do(b, b.names[random.IntN(2)])
				if err != nil && !errors.Is(err, failed.ErrNotFound) && !errors.Is(err, failed.ErrConflict) &&
					!errors.Is(err, failed.ErrNotResolved) {
					t.Errorf("%s: %v", act.name, err)
				}
			}
			within(t, "the workers have caught up", func() bool {
				b.must(b.many("", failed.RequeuePlaces))
				return query[bool](t, b.pool, `SELECT NOT EXISTS (SELECT FROM tidemark.failed) AND bool_and(r.position = j.last_value)
					FROM tidemark.readers r CROSS JOIN tidemark.journal_position j`)
			})
			for _, name := range b.names {
				b.compare(name, "all")
			}
			stop()
			for _, end := range done {
				b.must(<-end)
			}
		})
	}
}

// A worker keeps the keys that are behind and the events that are left out. Each act reaches it.
func TestAnActReachesTheWorkerThatHoldsTheKey(t *testing.T) {
	t.Parallel()
	for _, keyed := range []bool{true, false} {
		t.Run(map[bool]string{true: "key", false: "projection"}[keyed], func(t *testing.T) {
			t.Parallel()
			b := newTable(t, keyed, "b0")
			b.refuses.Store(true)
			ctx, stop := context.WithCancel(t.Context())
			p, end := b.worker(9), make(chan error, 1)
			go func() { end <- p.Run(ctx) }()
			rows := func(want string) {
				t.Helper()
				within(t, "rows are "+want, func() bool {
					return query[string](t, b.pool, `SELECT coalesce((SELECT string_agg(concat_ws(' ', campaign_id, status), ', ')
						FROM tidemark.failed), '')`) == want && query[bool](t, b.pool, `SELECT $1 OR bool_and(r.position = j.last_value)
						FROM tidemark.readers r CROSS JOIN tidemark.journal_position j`, want != "")
				})
			}
			rows(b.key() + " failed")
			d, err := failed.Show(t.Context(), b.pool, failed.Key{Projection: "b0", CampaignID: b.key()})
			if b.must(err); !d.Across() || d.Event == nil || d.Event.Position != b.at || d.Event.CampaignID != "game1" {
				t.Errorf("the event that failed is %+v", d.Event)
			}
			b.must(b.resolve("b0"))
			rows("")
			b.compare("b0", "resolve")
			b.must(b.replay("b0", b.key()))
			rows("")
			b.compare("b0", "replay")
			b.refuses.Store(false)
			b.must(b.unresolve("b0"))
			rows("")
			b.compare("b0", "unresolve")
			stop()
			b.must(<-end)
		})
	}
}

func TestWhatCannotBeReplayedByKeyIsRefusedWithARemedy(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	s := &scores{partitions: 2}
	p := workerOf(t, pool, nil, s.projections()...)
	score(t, pool, "game", scored{"bob", 1})
	drain(t, p)
	b := &table{T: t, pool: pool, keyed: true}
	for name, err := range map[string]error{
		"list: none of its code deletes the rows of a key: have it implement projector.Resetter, or rebuild it": b.replay("list", "bob"),
		"board: it has 2 partitions, and an event without a key may be any key's: rebuild it":                   b.replay("board", "-"),
	} {
		if !errors.Is(err, failed.ErrNotResettable) || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
	err := b.within(func(tx pgx.Tx) error {
		r := failed.ReplayRequest{Group: "default", Projection: "board", Campaigns: []string{"bob"}, From: 3}
		_, err := failed.Replay(t.Context(), tx, r, byAda())
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "replay it from scratch") {
		t.Error(err)
	}
}

// An event without a key holds back the partition. Once it is resolved and taken back, all keys are
// folded again.
func TestAnEventWhoseKeyCannotBeFoundIsResolvedAndTakenBack(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			var lost atomic.Bool
			lost.Store(true)
			worker := func() *projector.Projector {
				return workerOf(t, pool, nil, projection.Document[standing]{
					Name: "b0", Version: 1, Scope: projection.ScopeJournal, Partitions: partitions,
					Key: func(e event.Event) (string, error) {
						p, err := event.Decode[scored](e)
						if p.Points == rejected && lost.Load() {
							err = errRefused
						}
						return p.Player, err
					},
					Fold: func(doc *standing, e event.Event) error {
						p, err := event.Decode[scored](e)
						doc.add(e, p.Points)
						return err
					},
				})
			}
			b := &table{T: t, pool: pool, keyed: true, names: []string{"b0"}}
			b.more()
			score(t, pool, "game", scored{"bob", rejected})
			at := query[int64](t, pool, `SELECT max(position) FROM tidemark.journal`)
			b.more()
			drain(t, worker())
			expectPairs(t, pool, fmt.Sprint("- b0 ", at, " failed 1 transient error"))
			key := failed.Key{Projection: "b0", CampaignID: "-"}
			b.must(b.within(func(tx pgx.Tx) error { return failed.Resolve(t.Context(), tx, key, at, byAda()) }))
			unresolve := func() error {
				return b.within(func(tx pgx.Tx) error { return failed.Unresolve(t.Context(), tx, key, at, byAda()) })
			}
			b.must(unresolve()) // the partition still stands before it
			drain(t, worker())
			expectPairs(t, pool, fmt.Sprint("- b0 ", at, " failed 1 transient error"))
			b.must(b.within(func(tx pgx.Tx) error { return failed.Resolve(t.Context(), tx, key, at, byAda()) }))
			drain(t, worker())
			expectPairs(t, pool, "")
			b.compare("b0", "resolve")
			lost.Store(false)
			err := unresolve()
			if partitions > 1 {
				if !errors.Is(err, failed.ErrNotResettable) {
					t.Error(err)
				}
				return
			}
			b.must(err)
			drain(t, worker())
			expectPairs(t, pool, "")
			b.compare("b0", "unresolve")
		})
	}
}

func TestAPausedGroupAppliesNothingAcrossCampaigns(t *testing.T) {
	t.Parallel()
	b := newTable(t, true, "b0")
	drain(t, b.worker(9))
	target := pause.Target{Group: "default"}
	b.must(b.within(func(tx pgx.Tx) error { return pause.Set(t.Context(), tx, target, "ada", "", time.Hour) }))
	before := query[int64](t, b.pool, `SELECT sum(position) FROM tidemark.readers`)
	b.more()
	drain(t, b.worker(9))
	if after := query[int64](t, b.pool, `SELECT sum(position) FROM tidemark.readers`); after != before {
		t.Errorf("the places have moved from %d to %d", before, after)
	}
	b.must(b.within(func(tx pgx.Tx) error { return pause.Resume(t.Context(), tx, target, "ada", "") }))
	b.settle()
	b.compare("b0", "pause")
}

// The fence fails the transaction: nothing of it is committed.
func TestAHolderThatHasLostItsPlaceWritesNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	s := &scores{}
	score(t, pool, "game", scored{"ann", 1}, scored{"bob", 2})
	lost := false
	p := workerOf(t, pool, func(cfg *projector.Config) {
		cfg.OnStep = func(step kind.Step) {
			if step == kind.StepApplied && !lost {
				tag, err := pool.Exec(t.Context(), `UPDATE tidemark.readers SET generation = generation + 1
					WHERE expires_at > clock_timestamp()`)
				lost = err == nil && tag.RowsAffected() == 1
			}
		}
	}, s.projections()[0])
	drain(t, p)
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark_views.board`); !lost || n != 0 {
		t.Errorf("%d rows are written by a worker that has lost its place", n)
	}
	exec(t, pool, `UPDATE tidemark.readers SET expires_at = '-infinity'`)
	drain(t, workerOf(t, pool, nil, s.projections()...))
	expectScores(t, pool, nil)
}

// Rows of one key that cannot be deleted hold back this key alone.
func TestAKeyWhoseRowsCannotBeDeletedHoldsBackItselfAlone(t *testing.T) {
	t.Parallel()
	b := newTable(t, true, "b0")
	drain(t, b.worker(0))
	exec(t, b.pool, `CREATE TABLE kept (key text REFERENCES tidemark_views.b0 (key)); INSERT INTO kept VALUES ('bob')`)
	exec(t, b.pool, `UPDATE tidemark_views.b0 SET doc = '{"games": 99}' WHERE key = 'ann'`)
	b.must(b.replay("b0", "ann", "bob"))
	b.more()
	drain(t, b.worker(0))
	retry(t, b.pool, b.worker(0))
	b.more()
	drain(t, b.worker(0))
	expectText(t, b.pool, "rows", "ann 20 bob 11", `SELECT string_agg(concat_ws(' ', key, doc ->> 'games'), ' ' ORDER BY key)
		FROM tidemark_views.b0 WHERE key IN ('ann', 'bob')`)
	expectText(t, b.pool, "failed", "bob dead true 23503", `SELECT string_agg(concat_ws(' ', campaign_id, status, reset::text,
		error_code), ', ') FROM tidemark.failed`)
	exec(t, b.pool, `DROP TABLE kept`)
	b.must(b.many("b0", failed.RequeuePlaces))
	drain(t, b.worker(0))
	expectPairs(t, b.pool, "")
	b.compare("b0", "replay")
}

// The key of an event is found at last, and the event fails: it holds back this key.
func TestAnEventWhoseKeyIsFoundAtLastHoldsBackItsKey(t *testing.T) {
	t.Parallel()
	b := newTable(t, true, "b0")
	score(t, b.pool, "game2", scored{"bob", 7}, scored{"ann", 7})
	var lost atomic.Bool
	worker := func() *projector.Projector {
		return workerOf(t, b.pool, nil, projection.Document[standing]{
			Name: "b0", Version: 1, Scope: projection.ScopeJournal,
			Key: func(e event.Event) (string, error) {
				p, err := event.Decode[scored](e)
				if p.Points == rejected && lost.Load() {
					err = errRefused
				}
				return p.Player, err
			},
			Fold: func(doc *standing, e event.Event) error {
				p, err := event.Decode[scored](e)
				doc.add(e, p.Points)
				if p.Points == rejected && b.refuses.Load() {
					return errRefused
				}
				return err
			},
		})
	}
	lost.Store(true)
	drain(t, worker())
	expectPairs(t, b.pool, fmt.Sprint("- b0 ", b.at, " failed 1 transient error"))
	lost.Store(false)
	b.refuses.Store(true)
	retry(t, b.pool, worker())
	expectPairs(t, b.pool, fmt.Sprint("bob b0 ", b.at, " failed 1 transient error"))
	b.refuses.Store(false)
	retry(t, b.pool, worker())
	expectPairs(t, b.pool, "")
	b.compare("b0", "its key was found")
}

// A key that is replayed alone has nothing else in its transaction.
func TestRowsOfTheOnlyKeyThatIsReplayedCannotBeDeleted(t *testing.T) {
	t.Parallel()
	b := newTable(t, true, "b0")
	drain(t, b.worker(0))
	exec(t, b.pool, `CREATE TABLE kept (key text REFERENCES tidemark_views.b0 (key)); INSERT INTO kept VALUES ('bob')`)
	b.must(b.replay("b0", "bob"))
	drain(t, b.worker(0))
	expectText(t, b.pool, "failed", "bob dead true 23503", `SELECT string_agg(concat_ws(' ', campaign_id, status, reset::text,
		error_code), ', ') FROM tidemark.failed`)
	exec(t, b.pool, `DROP TABLE kept`)
	b.must(b.many("b0", failed.RequeuePlaces))
	drain(t, b.worker(0))
	expectPairs(t, b.pool, "")
	b.compare("b0", "replay")
}
