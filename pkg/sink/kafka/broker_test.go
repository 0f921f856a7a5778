package kafka_test

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-go/tidemark/internal/freeport"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/pkg/sink/kafka"
)

const topic = "events"

// broker is a Kafka broker on a loopback port. It keeps its data when it is stopped.
type broker struct {
	t       *testing.T
	options []kfake.Opt
	*kfake.Cluster
	stalled chan struct{} // receives a value when a produce request waits

	reader   *kgo.Client
	mu       sync.Mutex
	received []publishertest.Received
}

func start(t *testing.T, options ...kfake.Opt) *broker {
	t.Helper()
	b := &broker{
		t: t, stalled: make(chan struct{}, 100),
		options: append([]kfake.Opt{kfake.NumBrokers(1), kfake.DataDir(t.TempDir()), kfake.SeedTopics(3, topic)}, options...),
	}
	port, err := freeport.TCP(t.Context()) // a fixed port, so the broker can come back on it
	if err != nil {
		t.Fatal(err)
	}
	b.up(port)
	t.Cleanup(func() { b.Close() })
	return b
}

func (b *broker) up(port int) {
	b.t.Helper()
	cluster, err := kfake.NewCluster(append(b.options, kfake.Ports(port))...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Cluster = cluster
}

func (b *broker) address() string { return b.ListenAddrs()[0] }

// stop stops the broker and returns a function that starts it again.
func (b *broker) stop() (start func()) {
	_, text, _ := net.SplitHostPort(b.address())
	port, _ := strconv.Atoi(text)
	b.Close()
	return func() { b.up(port) }
}

// stall makes the broker hold back all produce responses.
func (b *broker) stall() (resume func()) {
	resumed := make(chan struct{})
	b.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		b.stalled <- struct{}{}
		b.SleepControl(func() { <-resumed })
		return nil, nil, false
	})
	return sync.OnceFunc(func() { close(resumed) })
}

func (b *broker) awaitStalled() { <-b.stalled }

// read returns the records of the topic.
func (b *broker) read(ctx context.Context) ([]publishertest.Received, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reader == nil {
		reader, err := kgo.NewClient(kgo.SeedBrokers(b.address()), kgo.ConsumeTopics(topic),
			kgo.FetchMaxWait(50*time.Millisecond), kgo.MetadataMinAge(100*time.Millisecond))
		if err != nil {
			return nil, err
		}
		b.reader = reader
		b.t.Cleanup(reader.Close)
	}
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	b.reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) { b.received = append(b.received, parse(r)) })
	return b.received, nil
}

func parse(r *kgo.Record) publishertest.Received {
	received := publishertest.Received{CampaignID: string(r.Key), Body: r.Value}
	for _, h := range r.Headers {
		if h.Key == "event_id" || h.Key == "ce_id" {
			received.EventID = uuid.MustParse(string(h.Value[:36]))
		}
	}
	return received
}

func open(t *testing.T, cfg kafka.Config) *kafka.Sink {
	t.Helper()
	if cfg.Topic == "" {
		cfg.Topic = topic
	}
	opened, err := kafka.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*kafka.Sink)
	t.Cleanup(func() { _ = s.Close() })
	return s
}
