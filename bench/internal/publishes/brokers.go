package publishes

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// The default settings of a publisher, for both sides.
const (
	brokerBatch       = 100
	brokerConcurrency = 4
)

// client publishes messages like a program that does nothing else: bodies and headers are ready,
// and it only converts them for the broker's client.
type client interface {
	// prepare writes the events' bodies and headers, with the same bytes as the sink.
	prepare(events []publisher.Event)
	// publish sends messages from up to below to and waits until the broker has acknowledged all of
	// them.
	publish(ctx context.Context, from, to int) error
	close()
}

// broker runs in this process and is empty for each run.
type broker interface {
	sink() (publisher.Sink, error)
	client(ctx context.Context) (client, error)
	stop()
}

// alone returns the messages that the client publishes in a second. Several goroutines send
// batches, and each waits for its own to be acknowledged.
func alone(start func(ctx context.Context) (broker, error)) func(context.Context, *harness.Database) (float64, error) {
	return func(ctx context.Context, db *harness.Database) (rate float64, err error) {
		to, err := start(ctx)
		if err != nil {
			return 0, err
		}
		defer to.stop()
		c, err := to.client(ctx)
		if err != nil {
			return 0, err
		}
		defer c.close()
		events, err := everything(ctx, db)
		if err != nil {
			return 0, err
		}
		c.prepare(events)
		if err := c.publish(ctx, 0, 1); err != nil { // connects
			return 0, err
		}
		var next atomic.Int64
		next.Store(1)
		begun := time.Now()
		group, ctx := errgroup.WithContext(ctx)
		for range brokerConcurrency {
			group.Go(func() error {
				for {
					from := int(next.Add(brokerBatch)) - brokerBatch
					if from >= len(events) {
						return nil
					}
					if err := c.publish(ctx, from, min(from+brokerBatch, len(events))); err != nil {
						return err
					}
				}
			})
		}
		if err := group.Wait(); err != nil {
			return 0, err
		}
		return float64(len(events)-1) / time.Since(begun).Seconds(), nil
	}
}

// everything reads the whole journal into memory.
func everything(ctx context.Context, db *harness.Database) (events []publisher.Event, err error) {
	pool, err := db.Pool(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	for e, err := range journal.ReadAll(ctx, pool, 0) {
		if err != nil {
			return nil, err
		}
		events = append(events, publisher.Event{Event: e, Topic: "all"})
	}
	return events, nil
}

// relayed is the relay with one pair to the broker.
func relayed(
	events int, start func(ctx context.Context) (broker, error),
) func(context.Context, *harness.Database) (float64, error) {
	return func(ctx context.Context, db *harness.Database) (rate float64, err error) {
		to, err := start(ctx)
		if err != nil {
			return 0, err
		}
		defer to.stop()
		return relaying{events: events, pairs: 1, sink: to.sink}.run(ctx, db)
	}
}

func MeasureBrokers(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	w := harness.Workload{Campaigns: b.Scaled(1000), Events: 100}
	template, err := b.Filled(ctx, w)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))
	var figures []harness.Figure
	// A broker that costs almost nothing, such as kfake, leaves the client alone with nothing to
	// wait for, while every publisher of a journal has to read it first. So the relay is compared
	// with plain loops that read the journal.
	for _, broker := range []struct {
		name, about string
		start       func(ctx context.Context) (broker, error)
		plain       []plainly
	}{
		{"publish_nats", "embedded NATS JetStream", startNATS, nil},
		{"publish_kafka", "kfake", startKafka, []plainly{{readers: 1}, {readers: 2}, {readers: 2, whole: true}}},
	} {
		sides := []harness.Side{
			b.On(template, "relay to "+broker.about, relayed(w.Total(), broker.start)),
			b.On(template, "its client alone", alone(broker.start)),
		}
		for _, plain := range broker.plain {
			plain.start = broker.start
			sides = append(sides, b.On(template, plain.String(), plain.run))
		}
		samples, err := b.Interleave(ctx, "events/s", sides...)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("publish to %s", broker.about), err)
		}
		to, against := samples[1], "the client alone"
		if len(broker.plain) > 0 {
			to, against = harness.Best(samples[2:]...), "the quickest loop that reads the journal and sends, without a relay,"
		}
		figures = append(figures, harness.AtLeast(0.7, harness.Figure{
			Name: broker.name, Value: samples[0].Median(), Unit: "events/s", Ratio: samples[0].Over(to),
			To: fmt.Sprintf("%s publishing the same %d messages to %s, %d batches of %d at once", against, w.Total(),
				broker.about, brokerConcurrency, brokerBatch),
		}))
	}
	return figures, nil
}
