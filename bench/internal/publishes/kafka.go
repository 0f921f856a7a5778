package publishes

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	kafkasink "github.com/tidemark-go/tidemark/pkg/sink/kafka"
)

const (
	kafkaTopic      = "events"
	kafkaPartitions = 4
)

// kafkaBroker is an in-memory cluster with one broker.
type kafkaBroker struct{ cluster *kfake.Cluster }

func startKafka(context.Context) (broker, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(kafkaPartitions, kafkaTopic))
	if err != nil {
		return nil, fmt.Errorf("start kfake: %w", err)
	}
	return &kafkaBroker{cluster}, nil
}

func (b *kafkaBroker) stop() { b.cluster.Close() }

func (b *kafkaBroker) sink() (publisher.Sink, error) {
	return kafkasink.New(kafkasink.Config{Brokers: b.cluster.ListenAddrs(), Topic: kafkaTopic})
}

// client has the settings of the sink: idempotent, all acknowledgements, snappy, up to 1 ms to fill
// a batch.
func (b *kafkaBroker) client(context.Context) (client, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.DefaultProduceTopic(kafkaTopic),
		kgo.ProducerLinger(time.Millisecond),
		kgo.ProducerBatchMaxBytes(1_000_012), kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()))
	if err != nil {
		return nil, fmt.Errorf("connect to kfake: %w", err)
	}
	return &kafkaClient{client: c}, nil
}

type kafkaClient struct {
	client   *kgo.Client
	messages []publisher.Message
}

func (c *kafkaClient) prepare(events []publisher.Event) {
	var encoder publisher.Encoder
	for i := range events {
		c.messages = append(c.messages, encoder.Encode(&events[i]))
	}
}

func (c *kafkaClient) record(i int) *kgo.Record {
	encoded := &c.messages[i]
	r := &kgo.Record{
		Key: []byte(encoded.Key), Value: encoded.Body,
		Headers: make([]kgo.RecordHeader, 0, len(encoded.Attributes)+1),
	}
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: "content-type", Value: []byte(encoded.ContentType)})
	for _, a := range encoded.Attributes {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: a.Name, Value: []byte(a.Value)})
	}
	return r
}

func (c *kafkaClient) publish(ctx context.Context, from, to int) error {
	records := make([]*kgo.Record, 0, to-from)
	for i := from; i < to; i++ {
		records = append(records, c.record(i))
	}
	if err := c.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce to kfake: %w", err)
	}
	return nil
}

func (c *kafkaClient) close() { c.client.Close() }
