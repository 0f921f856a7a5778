package publish_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/broker"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// exclusive records which relay sends for a topic, and checks that no other sends at the same time.
type exclusive struct {
	t  *testing.T
	mu sync.Mutex
	by map[string]map[string]int // topic: relay: batches under way
}

// watched is the sink of one relay.
type watched struct {
	publisher.Sink
	who string
	all *exclusive
}

func (w watched) Publish(ctx context.Context, events []publisher.Event) error {
	topic := events[0].Topic
	w.all.mu.Lock()
	if w.all.by[topic] == nil {
		w.all.by[topic] = map[string]int{}
	}
	w.all.by[topic][w.who]++
	if len(w.all.by[topic]) > 1 {
		w.all.t.Errorf("topic %s is published by several relays at once: %v", topic, w.all.by[topic])
	}
	w.all.mu.Unlock()
	defer func() {
		w.all.mu.Lock()
		defer w.all.mu.Unlock()
		if w.all.by[topic][w.who]--; w.all.by[topic][w.who] == 0 {
			delete(w.all.by[topic], w.who)
		}
	}()
	return w.Sink.Publish(ctx, events)
}

// TestReplicasThatJoinAndLeaveArePassedPairsWithoutAPause uses leases that outlive the test, so a
// pair that is not handed over is never published again.
func TestReplicasThatJoinAndLeaveArePassedPairsWithoutAPause(t *testing.T) {
	t.Parallel()
	const topics = 12
	pool, b := pgtest.New(t), broker.Start(t)
	watchOwners(t, pool)
	watchParked(t, pool)
	address := slow(t, b)
	senders := &exclusive{t: t, by: map[string]map[string]int{}}
	join := func(who string) (leave func()) {
		return run(t, quick(t, pool, address, func(c *publisher.Config, p *publisher.Publisher) {
			c.LeaseTTL, c.Topics, p.Topics = 10*time.Minute, nil, nil
			for i := range topics {
				c.Topics = append(c.Topics, publisher.Topic{Name: fmt.Sprint("t", i)})
				p.Topics = append(p.Topics, fmt.Sprint("t", i))
			}
			p.Sink = watched{p.Sink, who, senders}
		}))
	}
	shared := func(among ...int) {
		t.Helper()
		tally.Eventually(t, fmt.Sprintf("the pairs are shared out as %d", among),
			tally.Holds(pool, `SELECT array_agg(n ORDER BY n)
			= $1
			FROM (SELECT count(*)::int AS n FROM tidemark.readers WHERE expires_at > clock_timestamp()
				GROUP BY owner) AS c`, among))
	}
	flows := func() { // events of every pair
		t.Helper()
		at := tally.Value[int64](t, pool, `SELECT max(position) FROM tidemark.journal`)
		tally.Eventually(t, "all pairs go on", tally.Holds(pool, `SELECT bool_and(position > $1)
			FROM tidemark.readers`, at))
	}
	leaveFirst := join("first")
	load := write(t, pool, 4, 10*time.Millisecond)
	shared(12)
	leaveSecond := join("second")
	shared(6, 6)
	flows()
	join("third")
	shared(4, 4, 4)
	flows()
	leaveFirst()
	shared(6, 6)
	flows()
	leaveSecond()
	join("fourth")
	shared(6, 6)
	load.stop()
	for i := range topics {
		verify(t, pool, b, publications.Key{Topic: fmt.Sprint("t", i), Publisher: "out"})
	}
	heldOnce(t, pool)
	nothingParked(t, pool)
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM taken WHERE from_owner <> ''`); n < 6+4+4+6 {
		t.Errorf("pairs were handed over %d times", n)
	}
}
