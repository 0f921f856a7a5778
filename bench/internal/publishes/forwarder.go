package publishes

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
)

// forwarderBatch is the fastest of 100 (the forwarder's default), 1000 and 5000.
const forwarderBatch = 1000

// forwarded is a watermill publisher that discards messages and signals when it has got all of
// them.
type forwarded struct {
	begun time.Time
	left  atomic.Int64
	ended time.Time
	all   chan struct{}
}

// Publish counts the messages.
func (f *forwarded) Publish(_ string, messages ...*message.Message) error {
	if f.begun.IsZero() { // Publish is never called concurrently
		f.begun = time.Now()
	}
	if f.left.Add(-int64(len(messages))) == 0 {
		f.ended = time.Now()
		close(f.all)
	}
	return nil
}

// Close does nothing.
func (f *forwarded) Close() error { return nil }

// forwarding is watermill's forwarder from its outbox in Postgres to a publisher that discards
// messages.
type forwarding struct {
	messages, batchSize int
}

// run returns the messages forwarded in a second, from the first message on.
func (f forwarding) run(ctx context.Context, db *harness.Database) (rate float64, err error) {
	pool, err := db.Pool(ctx, 4)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	schema := watermillsql.DefaultPostgreSQLSchema{SubscribeBatchSize: f.batchSize}
	beginner := watermillsql.BeginnerFromPgx(pool)
	subscriber, err := harness.NewWatermillSubscriber(beginner, schema)
	if err != nil {
		return 0, err
	}
	defer subscriber.Close()
	if err := subscriber.SubscribeInitialize(harness.WatermillTopic); err != nil {
		return 0, fmt.Errorf("create watermill's tables: %w", err)
	}
	enveloped := func(p message.Publisher) message.Publisher {
		return forwarder.NewPublisher(p, forwarder.PublisherConfig{ForwarderTopic: harness.WatermillTopic})
	}
	if err := (harness.WatermillDrain{Messages: f.messages}).Publish(beginner, schema, enveloped); err != nil {
		return 0, err
	}
	if err := db.Settle(ctx); err != nil {
		return 0, err
	}
	out := &forwarded{all: make(chan struct{})}
	out.left.Store(int64(f.messages))
	forward, err := forwarder.NewForwarder(subscriber, out, watermill.NopLogger{},
		forwarder.Config{ForwarderTopic: harness.WatermillTopic})
	if err != nil {
		return 0, fmt.Errorf("make watermill's forwarder: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- forward.Run(ctx) }()
	select {
	case <-out.all:
	case <-ctx.Done():
		err = fmt.Errorf("watermill's forwarder: %d messages have not arrived after %s", out.left.Load(), publishWithin)
	}
	if closeErr := forward.Close(); err == nil {
		err = closeErr
	}
	if runErr := <-ended; err == nil {
		err = runErr
	}
	if err != nil {
		return 0, err
	}
	return float64(f.messages) / out.ended.Sub(out.begun).Seconds(), nil
}

func MeasureForwarder(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	w := harness.Workload{Campaigns: b.Scaled(1000), Events: 100}
	template, err := b.Filled(ctx, w)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))
	empty, err := b.Server.Create(ctx)
	if err != nil {
		return nil, err
	}
	defer empty.Drop(context.WithoutCancel(ctx))
	samples, err := b.Interleave(ctx, "events/s",
		b.On(template, "relay to a discarding sink", relaying{events: w.Total(), pairs: 1}.run),
		b.On(empty, "watermill-sql's forwarder", forwarding{messages: w.Total(), batchSize: forwarderBatch}.run),
	)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{harness.AtLeast(5, harness.Figure{
		Name: "publish_forwarder", Value: samples[0].Median(), Unit: "events/s", Ratio: samples[0].Over(samples[1]),
		To: fmt.Sprintf("watermill-sql's forwarder, %d messages, batches of %d, also to a sink that forgets", w.Total(),
			forwarderBatch),
	})}, nil
}
