package publisher

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestAnIdlePairPollsLessAndLess(t *testing.T) {
	t.Parallel()
	r := newRelay(Config{PollInterval: 500 * time.Millisecond, IdleAfter: 3, IdleMax: time.Minute}, nil, nil, "", "")
	for empty, least := range map[int]time.Duration{
		1: 500 * time.Millisecond, 3: 500 * time.Millisecond, 4: time.Second, 5: 2 * time.Second, 10: time.Minute,
		1000: time.Minute,
	} {
		for range 100 {
			if d := r.reader.pollDelay(&pair{wait: wait{empty: empty}}); d < least || d > least+250*time.Millisecond {
				t.Fatalf("after %d empty polls it waits %s, want %s and up to 250ms more", empty, d, least)
			}
		}
	}
	r.reader.inFlight = 1
	if d := r.reader.pollDelay(&pair{wait: wait{empty: 1000}}); d > 20*time.Millisecond {
		t.Errorf("while appends are in flight it waits %s", d)
	}
}

func TestAWakeMakesPairsThatWaitLookAgain(t *testing.T) {
	t.Parallel()
	p := &pair{wait: wait{wanting: true, empty: 7, nextPoll: time.Now().Add(time.Hour)}}
	r := newRelay(Config{}, nil, nil, "", "")
	r.pairs[publications.Key{}] = p
	r.reader.awake()
	if !r.reader.hungry || p.empty != 0 || !p.nextPoll.IsZero() {
		t.Errorf("after a wake, hungry: %v, empty polls: %d, next poll: %s", r.reader.hungry, p.empty, p.nextPoll)
	}
}

// One read at the end of the journal serves all idle pairs whose poll is due soon.
func TestOneLookAtTheEndOfTheJournalIsForAllThatWouldLookSoon(t *testing.T) {
	t.Parallel()
	now := time.Now()
	waiting := func(next time.Time) *pair { return &pair{wait: wait{wanting: true, nextPoll: next}} }
	due, soon, later := waiting(now), waiting(now.Add(200*time.Millisecond)), waiting(now.Add(time.Second))
	r := newRelay(Config{PollInterval: 500 * time.Millisecond}, nil, nil, "", "")
	r.pairs = map[publications.Key]*pair{{Topic: "due"}: due, {Topic: "soon"}: soon, {Topic: "later"}: later}
	r.reader.arrived(&reading{}, &pages.Window{}, nil, now)
	if !due.polled || !soon.polled || later.polled {
		t.Errorf("a look found nothing: it was one of the pair that was due: %v, of the one due in 200ms: %v, of the one "+
			"due in a second: %v", due.polled, soon.polled, later.polled)
	}
}

// One read serves all waiting pairs with positions close to each other.
func TestOneReadIsForAllPairsThatAreNear(t *testing.T) {
	t.Parallel()
	r, _ := alone(t, sinkFunc(accepts))
	r.db = ledger.New(pgtest.New(t), r.owner, ledger.Publisher, r.cfg.LeaseTTL)
	r.reader.head, r.reader.hungry = 100_000, true
	for i := range int64(50) {
		r.pairs[publications.Key{Topic: "near", Publisher: fmt.Sprint(i)}] = &pair{
			place: place{read: 10 * i},
			wait:  wait{wanting: true, since: time.Unix(100-i, 0)},
		}
		r.pairs[publications.Key{Topic: "far", Publisher: fmt.Sprint(i)}] = &pair{
			place: place{read: 50_000 + 10*i},
			wait:  wait{wanting: true, since: time.Unix(200-i, 0)},
		}
	}
	r.reader.startReads(time.Now())
	var from []int64
	for _, rd := range r.reader.reads {
		from = append(from, rd.After)
	}
	if slices.Sort(from); !slices.Equal(from, []int64{0, 50_000}) {
		t.Errorf("reads begin after %d, want one for all near the beginning and one for all near 50000", from)
	}
	for range from { // wait for both reads before the database is dropped
		<-r.inbox
	}
}

// While a pair sends for long, the reader prefetches the pages after it. When the cache is too
// small for them, it still reads each page once in advance, and again on demand.
func TestPagesAreReadInAdvanceOnceHoweverShortMemoryIs(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const count, events = 5, 20
	for range count {
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, "a", journal.Any,
				slices.Repeat([]event.Event{{Type: "noted"}}, events)...)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	r, key := alone(t, sinkFunc(accepts))
	r.db, r.cfg.PageEvents, r.cfg.CacheBytes, r.reader.cache = ledger.New(pool, r.owner, ledger.Publisher, r.cfg.LeaseTTL), events, 1,
		pages.NewCache(1, events)
	p := claimed(r, key, 0)
	p.busy = true
	r.reader.head = count * events
	for i := range int64(count) { // reads of other pairs that go on
		r.reader.read(i*events, time.Now())
		for answers := 0; r.working > 0; answers++ {
			if answers > 3*count {
				t.Fatalf("after a read of page %d, pages are read again and again while one pair sends", i)
			}
			(<-r.inbox)()
		}
	}
}
