package projector_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const (
	turnEvents = 4000 // of the journal
	turnKeys   = 12
)

// turns has a projection of one table, "b0", and a hook that sees each event as it is applied.
type turns struct {
	*table
	partitions int
	mu         sync.Mutex
	hook       func(key string, position int64)
	looks      atomic.Int64 // for the key of an event
	ttl        time.Duration
}

func newTurns(t *testing.T, partitions int) *turns {
	t.Helper()
	b := &turns{table: &table{T: t, pool: pgtest.New(t), keyed: true, names: []string{"b0"}}, partitions: partitions}
	b.fill()
	drain(t, b.runner(1000))
	return b
}

func (b *turns) fill() {
	b.Helper()
	for range turnEvents / 500 {
		events := make([]scored, 500)
		for i := range events {
			events[i] = scored{fmt.Sprint("p", i%turnKeys), 1}
		}
		score(b.T, b.pool, "game", events...)
	}
}

func (b *turns) runner(group int) *projector.Projector {
	board := projection.Document[standing]{
		Name: "b0", Version: 1, Types: []string{"scored"}, Scope: projection.ScopeJournal, Partitions: b.partitions,
		Key: func(e event.Event) (string, error) {
			b.looks.Add(1)
			p, err := event.Decode[scored](e)
			return p.Player, err
		},
		Fold: func(doc *standing, e event.Event) error {
			p, err := event.Decode[scored](e)
			doc.add(e, p.Points)
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.hook != nil {
				b.hook(p.Player, e.Position)
			}
			return err
		},
	}
	return workerOf(b.T, b.pool, func(cfg *projector.Config) {
		cfg.GroupEvents, cfg.LeaseTTL, cfg.PollInterval = group, max(b.ttl, 2*time.Second), 100*time.Millisecond
	}, board)
}

// caughtUp waits until no key is behind, and compares the table with the journal.
func (b *turns) caughtUp(stop context.CancelFunc, done <-chan error) {
	b.Helper()
	within(b.T, "all keys have caught up", func() bool {
		return query[bool](b.T, b.pool, `SELECT NOT EXISTS (SELECT FROM tidemark.failed) AND bool_and(r.position =
			j.last_value) FROM tidemark.readers r CROSS JOIN tidemark.journal_position j`)
	})
	stop()
	b.must(<-done)
	b.compare("b0", "replay")
}

// TestLiveEventsAreAppliedWhileKeysAreReplayed appends events while keys are replayed, and counts the
// replayed events that are applied before them.
func TestLiveEventsAreAppliedWhileKeysAreReplayed(t *testing.T) {
	t.Parallel()
	for partitions, keys := range map[int][]string{1: {"p3"}, 4: {"p0", "p3", "p7", "p8"}} {
		t.Run(fmt.Sprintf("%d_keys_of_%d_partitions", len(keys), partitions), func(t *testing.T) {
			t.Parallel()
			b := newTurns(t, partitions)
			last := query[int64](t, b.pool, `SELECT max(position) FROM tidemark.journal`)
			replayed, before := 0, map[string]int{}
			b.hook = func(key string, position int64) {
				switch {
				case position > last:
					if _, seen := before[key]; !seen {
						before[key] = replayed
					}
				case replayed == 0:
					for i := range turnKeys { // of keys that are replayed too
						score(t, b.pool, "more", scored{fmt.Sprint("p", i), 7})
					}
					fallthrough
				default:
					replayed++
				}
			}
			b.must(b.replay("b0", keys...))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done, p := make(chan error, 1), b.runner(10)
			go func() { done <- p.Run(ctx) }()
			b.caughtUp(stop, done)
			if all := len(keys) * turnEvents / turnKeys; replayed < all {
				t.Errorf("%d events are replayed, want %d", replayed, all)
			}
			for i := range turnKeys {
				key := fmt.Sprint("p", i)
				n, seen := before[key]
				if others := 100; !seen || n > others && !slices.Contains(keys, key) {
					t.Errorf("%d events are replayed before a live one of %s, of %d", n, key, replayed)
				}
			}
		})
	}
}

// TestAReplayedKeyTakesThePlaceFromItsWorkerForAMoment replays keys under a running worker, many more times
// than it looks for places.
func TestAReplayedKeyTakesThePlaceFromItsWorkerForAMoment(t *testing.T) {
	t.Parallel()
	b := newTurns(t, 1)
	b.ttl = time.Minute
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done, p := make(chan error, 1), b.runner(100)
	go func() { done <- p.Run(ctx) }()
	const replays, mostLooks = 40, 34
	began := time.Now()
	for i := range replays {
		b.must(b.replay("b0", "p3"))
		score(t, b.pool, "more", scored{"p0", 1})
		within(t, "a live event is applied", func() bool {
			return query[bool](t, b.pool, `SELECT position = (SELECT max(position) FROM tidemark.journal) FROM tidemark.readers`)
		})
		if looks := int(time.Since(began) / time.Second); looks > mostLooks {
			t.Fatalf("%d live events take %d s: each waits for a look", i+1, looks)
		}
	}
	b.caughtUp(stop, done)
}

// TestAReplayGoesOnWhereItsWorkerHasLeftIt replays a key that has one event at each end of the journal, and
// one that is all over it. It counts how many events are looked at, and applied.
func TestAReplayGoesOnWhereItsWorkerHasLeftIt(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"rare", "p3"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			b := &turns{table: &table{T: t, pool: pgtest.New(t), keyed: true, names: []string{"b0"}}, partitions: 1}
			score(t, b.pool, "first", scored{"rare", 1})
			b.fill()
			score(t, b.pool, "last", scored{"rare", 2})
			drain(t, b.runner(1000))
			b.must(b.replay("b0", key))
			b.looks.Store(0)
			ctx, stop := context.WithCancel(t.Context())
			applied := 0
			b.hook = func(string, int64) { applied++ }
			done, p := make(chan error, 1), b.runner(10)
			go func() { done <- p.Run(ctx) }()
			within(t, "most of the journal is read", func() bool { return b.looks.Load() > turnEvents*3/4 })
			stop()
			b.must(<-done)
			if n := query[int64](t, b.pool, `SELECT sum(next_seq) FROM tidemark.failed`); n < turnEvents/4 {
				t.Errorf("the key stands at %d", n)
			}
			ctx, stop = context.WithCancel(t.Context())
			p = b.runner(10)
			go func() { done <- p.Run(ctx) }()
			b.caughtUp(stop, done)
			if n := b.looks.Load(); n > turnEvents*3/2 {
				t.Errorf("%d events are looked at, of %d", n, turnEvents)
			}
			if most := turnEvents/turnKeys + 20; applied > most {
				t.Errorf("%d events are applied, want up to %d", applied, most)
			}
		})
	}
}

// TestDueKeysOfAPartitionHideNoneOfAnother has more due keys of a partition that another worker holds than one
// look reads.
func TestDueKeysOfAPartitionHideNoneOfAnother(t *testing.T) {
	t.Parallel()
	b := &turns{table: &table{T: t, pool: pgtest.New(t), keyed: true, names: []string{"b0"}}, partitions: 2}
	b.ttl = time.Minute
	score(t, b.pool, "game", scored{"ann", 1}, scored{"bob", 1}, scored{"ann", 2})
	drain(t, b.runner(10))
	mine := apply.PartitionOf("ann", 2)
	var others []string
	for i := 0; len(others) < 2500; i++ {
		if key := fmt.Sprint("k", i); apply.PartitionOf(key, 2) != mine {
			others = append(others, key)
		}
	}
	exec(t, b.pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
		attempt_count, next_attempt_at)
		SELECT k, 'b0', 'default', 1, 'catching_up', 0, now() - interval '1 hour' FROM unnest($1::text[]) AS k`, others)
	b.must(b.replay("b0", "ann"))
	tag, err := b.pool.Exec(t.Context(), `UPDATE tidemark.readers SET owner = 'another', generation = generation + 1,
		expires_at = now() + interval '50 s' WHERE (topic, publisher) = (SELECT topic, publisher FROM tidemark.readers
			ORDER BY topic, publisher OFFSET $1 LIMIT 1)`, 1-mine)
	if b.must(err); tag.RowsAffected() != 1 {
		t.Fatal("the other partition has no row")
	}
	drain(t, b.runner(10))
	if n := query[int](t, b.pool, `SELECT count(*) FROM tidemark.failed WHERE campaign_id = 'ann'`); n != 0 {
		t.Error("a due key of a partition waits for those of another")
	}
}
