package publishes

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

const publishWithin = time.Minute

// discarding is a sink that accepts and discards all events.
type discarding struct{}

// Name returns the sink's name.
func (discarding) Name() string { return "discarding" }

// Publish does nothing.
func (discarding) Publish(context.Context, []publisher.Event) error { return nil }

// counting is a sink that counts the events that another sink accepts, and signals when all have
// arrived.
type counting struct {
	publisher.Sink
	first sync.Once
	begun time.Time // when the first events arrived
	left  atomic.Int64
	ended time.Time // when the last events were accepted
	all   chan struct{}
}

func newCounting(events int, sink publisher.Sink) *counting {
	c := &counting{Sink: sink, all: make(chan struct{})}
	c.left.Store(int64(events))
	return c
}

// Publish passes the events on.
func (c *counting) Publish(ctx context.Context, events []publisher.Event) error {
	c.first.Do(func() { c.begun = time.Now() })
	if err := c.Sink.Publish(ctx, events); err != nil {
		return err
	}
	if c.left.Add(-int64(len(events))) == 0 {
		c.ended = time.Now()
		close(c.all)
	}
	return nil
}

// relaying is a journal that one relay publishes to the given number of publishers.
type relaying struct {
	events, pairs int
	sink          func() (publisher.Sink, error) // one sink for all, closed if it is an io.Closer; nil: discarding
	used          *int32                         // receives the peak number of open connections
}

// run returns the events that all publishers together accept in a second, from the first event on.
func (r relaying) run(ctx context.Context, db *harness.Database) (rate float64, err error) {
	var to publisher.Sink = discarding{}
	if r.sink != nil {
		if to, err = r.sink(); err != nil {
			return 0, err
		}
	}
	if closer, ok := to.(io.Closer); ok {
		defer closer.Close()
	}
	pool, err := harness.OpenRelayPool(ctx, db)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	sink := newCounting(r.events*r.pairs, to)
	relay, err := publisher.New(harness.RelayConfig(pool, sink, r.pairs))
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	stop := harness.StartRelay(ctx, relay)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	most := int32(0)
	for done := false; !done; {
		select {
		case <-look.C:
			most = max(most, pool.Stat().TotalConns())
		case <-ctx.Done():
			done = true
		case <-sink.all:
			done = true
		}
	}
	if err := stop(); err != nil {
		return 0, err
	}
	if left := sink.left.Load(); left > 0 {
		return 0, fmt.Errorf("relay: %d events have not arrived after %s", left, publishWithin)
	}
	if r.used != nil {
		*r.used = max(*r.used, most+1) // one more for the connection that listens
	}
	return float64(r.events*r.pairs) / sink.ended.Sub(sink.begun).Seconds(), nil
}
