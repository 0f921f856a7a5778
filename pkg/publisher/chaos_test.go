package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// sized returns a pool of n connections to the database of pool.
func sized(t *testing.T, pool *pgxpool.Pool, n int32) *pgxpool.Pool {
	t.Helper()
	cfg := pool.Config().Copy()
	cfg.MaxConns = n
	other, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	return other
}

// write runs writers until ctx ends. Some of their transactions roll back, some are slow, some
// append to several campaigns.
func write(ctx context.Context, pool *pgxpool.Pool, writers int) *errgroup.Group {
	g := &errgroup.Group{}
	undone := errors.New("undone")
	for w := range writers {
		g.Go(func() error {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for ctx.Err() == nil {
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					campaign := fmt.Sprintf("w%d-%d", w, random.IntN(3))
					if random.IntN(8) == 0 {
						campaign = "of all"
					}
					events := make([]event.Event, 1+random.IntN(4))
					for i := range events {
						events[i].Type = []string{"noted", "told"}[random.IntN(2)]
					}
					if _, err := (journal.Journal{}).Append(ctx, tx, campaign, journal.Any, events...); err != nil {
						return err
					}
					switch random.IntN(10) {
					case 0:
						return undone
					case 1:
						_, err := tx.Exec(ctx, "SELECT pg_sleep($1)", random.Float64()/30)
						return err
					}
					return nil
				})
				if err != nil && !errors.Is(err, undone) && ctx.Err() == nil {
					return err
				}
			}
			return nil
		})
	}
	return g
}

// flaky returns a sink that fails whole batches, fails half of a batch, hangs, or is slow.
func flaky() *memory.Sink {
	s := &memory.Sink{}
	s.OnPublish = func(ctx context.Context, _ []publisher.Event) error {
		switch rand.IntN(20) {
		case 0:
			return errors.New("it fails")
		case 1:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Duration(rand.IntN(50)) * time.Millisecond):
			}
		case 2:
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	s.Refuse = func(publisher.Event) (error, bool) {
		if rand.IntN(200) == 0 {
			return errRefused, false
		}
		return nil, false
	}
	return s
}

// TestEveryPublisherSeesEveryCommittedEvent runs 16 writers, some of which roll back. Meanwhile a
// stranger keeps a transaction open, sinks fail in every way, and relays join and leave.
func TestEveryPublisherSeesEveryCommittedEvent(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	stranger, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Exec(t.Context(),
		"CREATE TABLE strangers (a int); INSERT INTO strangers VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	sinks := []*memory.Sink{{}, flaky(), flaky(), {}}
	var publishers []publisher.Publisher
	for i, s := range sinks {
		p := publisher.Publisher{
			Name: fmt.Sprint("p", i), Sink: s, Topics: []string{"all", "told"}, RetryBase: time.Millisecond,
			RetryMax: 10 * time.Millisecond, BackoffMax: 20 * time.Millisecond, Attempts: 1000, BatchSize: 20,
		}
		if i == 3 {
			p.Order = publisher.OrderGlobal
		}
		publishers = append(publishers, p)
	}
	relays := sized(t, pool, 3*publisher.Connections)
	cfg := publisher.Config{
		Pool: relays, Topics: []publisher.Topic{
			{Name: "all"},
			{Name: "told", Filter: publisher.Filter{EventTypes: []string{"told"}}},
		}, Publishers: publishers,
		LeaseTTL: 2 * time.Second, PollInterval: 100 * time.Millisecond,
	}
	start(t, cfg)
	writing, stop := context.WithTimeout(t.Context(), 4*time.Second)
	defer stop()
	g := write(writing, sized(t, pool, 16), 16)
	for range 4 { // relays join and leave
		leave := start(t, cfg)
		eventually(t, "the one that joined has pairs", func() bool {
			return query[int](t, pool, "SELECT count(DISTINCT owner) FROM tidemark.readers WHERE expires_at > now()") > 1
		})
		if writing.Err() == nil {
			leave()
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	ids := committed(t, pool)
	told := committed(t, pool, "told")
	for i, s := range sinks {
		eventually(t, fmt.Sprintf("publisher %d has all", i), func() bool {
			byTopic := split(s.Received())
			return hasAll(byTopic["all"], ids) && hasAll(byTopic["told"], told)
		})
		inOrder(t, split(s.Received())["all"])
		if i == 3 {
			last := int64(0)
			for _, r := range split(s.Received())["all"] {
				if r.Position > last+1 && !covered(pool, t, last, r.Position) {
					t.Errorf("position %d came after %d", r.Position, last)
				}
				last = max(last, r.Position)
			}
		}
	}
	if n := query[int](t, pool, "SELECT count(*) FROM tidemark.parked WHERE status = 'parked'"); n != 0 {
		t.Errorf("%d events are parked", n)
	}
	if err := stranger.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events", len(ids))
}

func split(received []memory.Received) map[string][]memory.Received {
	byTopic := map[string][]memory.Received{}
	for _, r := range received {
		byTopic[r.Topic] = append(byTopic[r.Topic], r)
	}
	return byTopic
}

// covered reports whether no event has a position between after and before.
func covered(pool *pgxpool.Pool, t *testing.T, after, before int64) bool {
	t.Helper()
	return query[int](t, pool, "SELECT count(*) FROM tidemark.journal WHERE position > $1 AND position < $2", after,
		before) == 0
}

// TestFiveHundredPairsAreSharedByThreeRelays shows that a pair costs no connection and no read of
// its own.
func TestFiveHundredPairsAreSharedByThreeRelays(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	sink := &memory.Sink{}
	cfg := publisher.Config{
		Pool: sized(t, pool, publisher.Connections), LeaseTTL: 30 * time.Second, NoListen: true,
		PollInterval: 100 * time.Millisecond,
	}
	p := publisher.Publisher{Name: "out", Sink: sink}
	for i := range 500 {
		name := fmt.Sprint("t", i)
		cfg.Topics = append(cfg.Topics, publisher.Topic{Name: name})
		p.Topics = append(p.Topics, name)
	}
	cfg.Publishers = []publisher.Publisher{p}
	for range 3 {
		start(t, cfg)
	}
	eventually(t, "they are shared out evenly", func() bool {
		return query[string](t, pool,
			"SELECT coalesce(string_agg(n::text, ' ' ORDER BY n), '') FROM (SELECT count(*) AS n FROM tidemark.readers "+
				"WHERE expires_at > now() GROUP BY owner) AS c") == "166 167 167"
	})
	appendTo(t, pool, 20, "a", "b")
	eventually(t, "all pairs have published all", func() bool {
		received := sink.Received()
		return len(received) >= 500*40 && different(received) == 500*40
	})
	eventually(t, "all positions are written", func() bool {
		return query[int](t, pool, "SELECT count(*) FROM tidemark.readers WHERE position = 40") == 500
	})
	for _, received := range split(sink.Received()) {
		inOrder(t, received)
	}
}

// different returns the number of received events, each counted once per topic.
func different(received []memory.Received) int {
	type once struct {
		topic string
		id    uuid.UUID
	}
	seen := map[once]bool{}
	for _, r := range received {
		seen[once{r.Topic, r.ID}] = true
	}
	return len(seen)
}

func TestASlowSinkSlowsNobodyElse(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	quickSink, stuck := &memory.Sink{}, &memory.Sink{OnPublish: func(ctx context.Context, _ []publisher.Event) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	cfg := quick(pool, quickSink)
	other := cfg.Publishers[0]
	other.Name, other.Sink, other.Timeout = "stuck", stuck, time.Minute
	cfg.Publishers = append(cfg.Publishers, other)
	cfg.CacheBytes, cfg.ShutdownTimeout = 1000, 50*time.Millisecond
	start(t, cfg)
	for i := range 20 {
		appendTo(t, pool, 50, "a", "b")
		eventually(t, "the other has it", func() bool { return len(quickSink.Received()) == (i+1)*100 })
	}
}

// A relay that is cut off from the database cannot know whether its leases hold, so it stops
// sending.
func TestNothingIsSentUnderALeaseThatCannotBeRenewed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const all = 900 // one by one they take far longer than a lease
	var brisk atomic.Bool
	sink := &memory.Sink{OnPublish: func(ctx context.Context, _ []publisher.Event) error {
		if brisk.Load() {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
		return nil
	}}
	appendTo(t, pool, all, "a")
	start(t, quick(pool, sink, func(c *publisher.Config, p *publisher.Publisher) {
		c.LeaseTTL, p.BatchSize, p.Concurrency = time.Second, 1, 200
	}))
	eventually(t, "it publishes", func() bool { return len(sink.Received()) > 0 })
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM tidemark.readers FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var n int
	at := time.Now()
	eventually(t, "it has stopped", func() bool {
		if now := len(sink.Received()); now != n {
			n, at = now, time.Now()
		}
		return time.Since(at) > 500*time.Millisecond
	})
	if n == all {
		t.Error("all has been sent, under a lease that was over")
	}
	brisk.Store(true)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes on", func() bool { return hasAll(sink.Received(), committed(t, pool)) })
	inOrder(t, sink.Received())
}
