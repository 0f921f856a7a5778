package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

const publishWithin = time.Minute

// discarding is a sink that takes everything.
type discarding struct{}

// Name names it.
func (discarding) Name() string { return "discarding" }

// Publish does nothing.
func (discarding) Publish(context.Context, []publisher.Event) error { return nil }

// counting is a sink that counts what another has taken, and tells when it was all.
type counting struct {
	publisher.Sink
	first sync.Once
	begun time.Time // when the first events came
	left  atomic.Int64
	ended time.Time // when the last were taken
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

// relaying is a journal that is published to so many publishers, by one relay.
type relaying struct {
	events, pairs int
	sink          func() (publisher.Sink, error) // one for all; closed if it can be. nil: discarding
	used          *int32                         // where to write how many connections were open at most
}

// run answers the events that all publishers together take in a second, from when the first came.
func (r relaying) run(ctx context.Context, db *Database) (rate float64, err error) {
	var to publisher.Sink = discarding{}
	if r.sink != nil {
		if to, err = r.sink(); err != nil {
			return 0, err
		}
	}
	if closer, ok := to.(io.Closer); ok {
		defer closer.Close()
	}
	pool, err := openPool(ctx, db)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	sink := newCounting(r.events*r.pairs, to)
	relay, err := publisher.New(relayConfig(pool, sink, r.pairs))
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	stop := start(ctx, relay)
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
		*r.used = max(*r.used, most+1) // the one that listens is of its own
	}
	return float64(r.events*r.pairs) / sink.ended.Sub(sink.begun).Seconds(), nil
}

// openPool opens a pool that gives a relay as many connections as it wants.
func openPool(ctx context.Context, db *Database) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		return nil, fmt.Errorf("parse the address of database %s: %w", db.Name, err)
	}
	config.MaxConns = publishPairs // more than it should want
	return pgxpool.NewWithConfig(ctx, config)
}

// relayConfig is one topic with everything, and so many publishers to one sink.
func relayConfig(pool *pgxpool.Pool, sink publisher.Sink, pairs int) publisher.Config {
	cfg := publisher.Config{Pool: pool, Topics: []publisher.Topic{{Name: "all"}}}
	for i := range pairs {
		cfg.Publishers = append(cfg.Publishers, publisher.Publisher{
			Name: fmt.Sprintf("p%d", i), Sink: sink,
			Topics: []string{"all"},
		})
	}
	return cfg
}

// start runs a relay until stop is called, which answers how it ended.
func start(ctx context.Context, relay *publisher.Relay) (stop func() error) {
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(running) }()
	return func() error {
		cancel()
		if err := <-ended; err != nil {
			return fmt.Errorf("relay: %w", err)
		}
		return nil
	}
}
