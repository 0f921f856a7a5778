package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
)

const (
	WatermillTopic = "damage"
	watermillPoll  = 10 * time.Millisecond // the default of 1 s would only delay the first message
)

// WatermillDrain publishes messages, subscribes and counts how many it acknowledges in a second
// until none is left.
type WatermillDrain struct {
	Messages  int
	batchSize int
}

// Run returns the messages that a subscriber takes in a second.
func (w WatermillDrain) Run(ctx context.Context, db *Database) (rate float64, err error) {
	pool, err := db.Pool(ctx, 4)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	schema := watermillsql.DefaultPostgreSQLSchema{SubscribeBatchSize: w.batchSize}
	beginner := watermillsql.BeginnerFromPgx(pool)
	subscriber, err := NewWatermillSubscriber(beginner, schema)
	if err != nil {
		return 0, err
	}
	defer func() {
		if closeErr := subscriber.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("close watermill's subscriber: %w", closeErr)
		}
	}()
	if err := subscriber.SubscribeInitialize(WatermillTopic); err != nil {
		return 0, fmt.Errorf("create watermill's tables: %w", err)
	}
	if err := w.Publish(beginner, schema, func(p message.Publisher) message.Publisher { return p }); err != nil {
		return 0, err
	}
	if err := db.Settle(ctx); err != nil {
		return 0, err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	messages, err := subscriber.Subscribe(ctx, WatermillTopic)
	if err != nil {
		return 0, fmt.Errorf("subscribe: %w", err)
	}
	for range w.Messages {
		m, open := <-messages
		if !open {
			return 0, fmt.Errorf("watermill closed its channel: %w", ctx.Err())
		}
		m.Ack()
	}
	return float64(w.Messages) / time.Since(start).Seconds(), nil
}

// NewWatermillSubscriber returns a subscriber and initialises its schema.
func NewWatermillSubscriber(
	db watermillsql.Beginner, schema watermillsql.SchemaAdapter,
) (*watermillsql.Subscriber, error) {
	subscriber, err := watermillsql.NewSubscriber(db, watermillsql.SubscriberConfig{
		ConsumerGroup:    "bench",
		PollInterval:     watermillPoll,
		SchemaAdapter:    schema,
		OffsetsAdapter:   watermillsql.DefaultPostgreSQLOffsetsAdapter{},
		InitializeSchema: true,
	}, watermill.NopLogger{})
	if err != nil {
		return nil, fmt.Errorf("make watermill's subscriber: %w", err)
	}
	return subscriber, nil
}

// Publish sends one campaign's events in each transaction, like the other sides. It wraps the
// publisher with decorate.
func (w WatermillDrain) Publish(
	db watermillsql.Beginner, schema watermillsql.SchemaAdapter, decorate func(message.Publisher) message.Publisher,
) error {
	sql, err := watermillsql.NewPublisher(db, watermillsql.PublisherConfig{SchemaAdapter: schema}, watermill.NopLogger{})
	if err != nil {
		return fmt.Errorf("make watermill's publisher: %w", err)
	}
	publisher := decorate(sql)
	const perTransaction = 100
	for first := 0; first < w.Messages; first += perTransaction {
		batch := make([]*message.Message, 0, perTransaction)
		for i := first; i < min(first+perTransaction, w.Messages); i++ {
			payload, err := DamagePayload(i)
			if err != nil {
				return err
			}
			batch = append(batch, message.NewMessage(watermill.NewUUID(), message.Payload(payload)))
		}
		if err := publisher.Publish(WatermillTopic, batch...); err != nil {
			return fmt.Errorf("publish to watermill: %w", err)
		}
	}
	return nil
}
