package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// payment is an event as the envelope carries it.
type payment struct {
	CampaignID string    `json:"campaign_id"`
	EventID    uuid.UUID `json:"event_id"`
	Data       struct {
		Amount int `json:"amount"`
	} `json:"data"`
}

// consumeKafka handles records until ctx ends. It commits offsets after the effects, so a crash
// redelivers the last records and the inbox recognises them.
func consumeKafka(ctx context.Context, client *kgo.Client, pool *pgxpool.Pool) error {
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			var p payment
			if err := json.Unmarshal(record.Value, &p); err != nil {
				return fmt.Errorf("offset %d of partition %d: %w", record.Offset, record.Partition, err)
			}
			if err := consume(ctx, pool, p.CampaignID, p.EventID, p.Data.Amount); err != nil {
				return err // no offset of this poll is committed, so the next run reads the poll again
			}
		}
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
	}
}

// consumeNATS handles messages until ctx ends. It does not acknowledge a message whose handling
// failed, so the server delivers it again.
func consumeNATS(ctx context.Context, consumer jetstream.Consumer, pool *pgxpool.Pool) error {
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	defer messages.Stop()
	for {
		m, err := messages.Next()
		switch {
		case errors.Is(err, jetstream.ErrMsgIteratorClosed):
			return nil
		case err != nil:
			return err
		}
		var p payment
		if err := json.Unmarshal(m.Data(), &p); err != nil {
			_ = m.TermWithReason(err.Error()) // a retry cannot succeed
			continue
		}
		if err := consume(ctx, pool, p.CampaignID, p.EventID, p.Data.Amount); err != nil {
			_ = m.NakWithDelay(time.Second)
			continue
		}
		_ = m.Ack() // if the ack is lost, the server delivers the message again
	}
}

// Two of the Kafka records are the same event.
func ExampleCheckAndMark_kafka() {
	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "payments"))
		if err != nil {
			return err
		}
		defer cluster.Close()
		client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("payments"),
			kgo.ConsumeTopics("payments"),
			kgo.ConsumerGroup("invoices"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			return err
		}
		defer client.Close()
		for _, body := range deliveries() {
			if err := client.ProduceSync(ctx, kgo.StringRecord(body)).FirstErr(); err != nil {
				return err
			}
		}
		return until42(ctx, pool, func(ctx context.Context) error { return consumeKafka(ctx, client, pool) })
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: total: 42
}

// Two of the JetStream messages are the same event.
func ExampleCheckAndMark_nats() {
	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) (err error) {
		dir, err := os.MkdirTemp("", "tidemark-example-*")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		broker, err := server.NewServer(&server.Options{
			Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
			StoreDir: dir, NoLog: true, NoSigs: true,
		})
		if err != nil {
			return err
		}
		go broker.Start()
		defer broker.WaitForShutdown()
		defer broker.Shutdown()
		if !broker.ReadyForConnections(time.Minute) {
			return errors.New("the server does not get ready")
		}
		conn, err := nats.Connect(broker.ClientURL())
		if err != nil {
			return err
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err != nil {
			return err
		}
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{
			Name:     "PAYMENTS",
			Subjects: []string{"payments"},
		}); err != nil {
			return err
		}
		consumer, err := js.CreateConsumer(ctx, "PAYMENTS",
			jetstream.ConsumerConfig{Durable: "invoices", AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			return err
		}
		for _, body := range deliveries() {
			if _, err := js.Publish(ctx, "payments", []byte(body)); err != nil {
				return err
			}
		}
		return until42(ctx, pool, func(ctx context.Context) error { return consumeNATS(ctx, consumer, pool) })
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: total: 42
}

// deliveries returns two events, the first of them twice.
func deliveries() []string {
	first := fmt.Sprintf(`{"event_id": %q, "campaign_id": "oak", "version": 1, "data": {"amount": 40}}`, uuid.New())
	return []string{
		first, first,
		fmt.Sprintf(`{"event_id": %q, "campaign_id": "oak", "version": 1, "data": {"amount": 2}}`, uuid.New()),
	}
}

// until42 consumes until the last event has had its effect, and prints the total.
func until42(ctx context.Context, pool *pgxpool.Pool, run func(context.Context) error) error {
	if _, err := pool.Exec(ctx, "CREATE TABLE totals AS SELECT 0 AS amount"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	total := 0
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for total%40 != 2 {
		<-tick.C
		if err := pool.QueryRow(ctx, "SELECT amount FROM totals").Scan(&total); err != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	cancel()
	if _, err := fmt.Fprintln(os.Stdout, "total:", total); err != nil {
		return err
	}
	// The context can end while the consumer still commits its offset.
	if err := <-done; !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
