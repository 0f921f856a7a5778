package kafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

type sink struct {
	cfg     Config
	options []kgo.Opt
	links   *connections
	room    *semaphore.Weighted // a Publish takes one unit, oneByOne takes all
	gate    delivery.Gate

	mu     sync.Mutex
	client *kgo.Client // nil until needed
}

const (
	everything = 1 << 20
	closeLimit = 5 * time.Second
)

// New checks the configuration. It connects with the first Publish or Healthy.
func New(cfg Config) (publisher.Sink, error) {
	options, err := cfg.options()
	if err != nil {
		return nil, err
	}
	links := &connections{}
	return &sink{
		cfg: cfg, options: append(options, kgo.WithHooks(links)), links: links,
		room: semaphore.NewWeighted(everything),
	}, nil
}

func (s *sink) Name() string { return s.cfg.Name }

// Publish produces the events and waits until all replicas in sync have them.
func (s *sink) Publish(ctx context.Context, events []publisher.Event) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	client, err := s.open()
	if err != nil {
		return err
	}
	b := s.newBatch(events)
	err = s.together(ctx, client, b)
	if err == nil && b.outcome.Err() != nil {
		b.outcome, err = s.oneByOne(ctx, client, b)
	}
	if err == nil {
		return b.outcome.Err()
	}
	err = s.links.explain(fmt.Errorf("produce to topic %s: %w", s.cfg.Topic, err))
	if standing(err) {
		return publisher.Outage(err)
	}
	return err
}

// together sends all events at once. If it returns nil, all are acknowledged or refused.
//
// A campaign's events are in one partition. If the client gives up a record, it gives up all it
// holds for that partition, so later ones do not overtake. This function holds back those it has
// not yet passed to the client.
func (s *sink) together(ctx context.Context, client *kgo.Client, b *batch) error {
	if err := s.room.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.room.Release(1)
	for i, r := range b.records {
		if b.try(i, s.tooLarge(r)) {
			client.Produce(ctx, r, func(_ *kgo.Record, err error) { b.answered(i, err) })
		}
	}
	b.answered(-1, nil)
	// Flush makes the client send at once, without lingering, until all results are in.
	flushing, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { _ = client.Flush(flushing) })
	defer ended.Wait()
	defer stop()
	select {
	case <-b.done:
		return b.outage
	case <-ctx.Done():
		return ctx.Err()
	}
}

// oneByOne sends refused events again while nothing else is in flight: a batch is refused as a
// whole, with other calls' events in it.
func (s *sink) oneByOne(ctx context.Context, client *kgo.Client, b *batch) (*delivery.Outcome, error) {
	if err := s.room.Acquire(ctx, everything); err != nil {
		return nil, err
	}
	defer s.room.Release(everything)
	if err := client.Flush(ctx); err != nil { // records that other calls left behind
		return nil, err
	}
	again := b.outcome.Again()
	for i, r := range b.records {
		if !b.outcome.Failed(i) || again.Behind(i) {
			continue
		}
		err := s.tooLarge(r)
		if err == nil {
			err = client.ProduceSync(ctx, &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers}).FirstErr()
			if err != nil && !refuses(err) {
				return nil, err
			}
		}
		if err != nil {
			again.Fail(i, err, true)
		}
	}
	return again, nil
}

func (s *sink) Healthy(ctx context.Context) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	client, err := s.open()
	if err != nil {
		return err
	}
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(s.cfg.Topic)
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return s.links.explain(fmt.Errorf("ask for topic %s: %w", s.cfg.Topic, err))
	}
	for _, topic := range response.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return fmt.Errorf("topic %s: %w", s.cfg.Topic, err)
		}
		for _, p := range topic.Partitions {
			if p.Leader < 0 {
				return fmt.Errorf("topic %s: partition %d has no leader", s.cfg.Topic, p.Partition)
			}
		}
	}
	return nil
}

// Close waits for current batches, flushes the client for up to 5 seconds, and disconnects.
func (s *sink) Close() error {
	if !s.gate.Close() || s.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	err := s.client.Flush(ctx)
	s.client.Close()
	if err != nil {
		return fmt.Errorf("flush topic %s: %w", s.cfg.Topic, err)
	}
	return nil
}

func (s *sink) open() (client *kgo.Client, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		if s.client, err = kgo.NewClient(s.options...); err != nil {
			return nil, fmt.Errorf("start the client: %w", err)
		}
	}
	return s.client, nil
}
