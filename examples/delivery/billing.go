package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidemark-go/tidemark/pkg/inbox"
)

const (
	consumerName = "billing"
	// messages acknowledged together: after a kill in between, all of them are delivered again
	fetchMost = 20
	ackWait   = time.Second            // after which the broker redelivers unacknowledged messages
	fetchWait = 500 * time.Millisecond // for the first message
)

// billing writes an invoice for each order, until it is killed.
func billing(ctx context.Context, s settings) error {
	pool, err := pgxpool.New(ctx, s.url)
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, err := nats.Connect(s.broker, nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", s.broker, err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, streamName,
		jetstream.ConsumerConfig{
			Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
			MaxAckPending: fetchMost,
		})
	if err != nil {
		return fmt.Errorf("consumer %s: %w", consumerName, err)
	}
	for ctx.Err() == nil {
		messages, err := consumer.Fetch(fetchMost, jetstream.FetchMaxWait(fetchWait))
		if err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		var done []jetstream.Msg
		for m := range messages.Messages() {
			if err := bill(ctx, pool, m); err != nil {
				return err // nothing is acknowledged, so all of it is redelivered
			}
			done = append(done, m)
		}
		for _, m := range done {
			if err := m.Ack(); err != nil {
				return fmt.Errorf("acknowledge: %w", err)
			}
		}
	}
	return nil
}

// bill applies the effects of one message once, however often it is delivered.
func bill(ctx context.Context, pool *pgxpool.Pool, m jetstream.Msg) error {
	eventID, err := uuid.Parse(m.Headers().Get("event_id"))
	if err != nil {
		return fmt.Errorf("a message without an event's id: %w", err)
	}
	var envelope struct {
		CampaignID string `json:"campaign_id"`
		Data       order  `json:"data"`
	}
	if err := json.Unmarshal(m.Data(), &envelope); err != nil {
		return fmt.Errorf("event %s: %w", eventID, err)
	}
	// only for the count at the end
	if _, err := pool.Exec(ctx, "INSERT INTO delivery.deliveries (event_id) VALUES ($1)", eventID); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		first, err := inbox.CheckAndMark(ctx, tx, consumerName, envelope.CampaignID, eventID)
		if err != nil || !first {
			return err
		}
		return invoice(ctx, tx, envelope.Data)
	})
}

// invoice writes an invoice and adds it to the customer's debt. Running twice would show.
func invoice(ctx context.Context, tx pgx.Tx, o order) error {
	if _, err := tx.Exec(ctx, "INSERT INTO delivery.invoices (order_id, amount) VALUES ($1, $2)", o.ID,
		o.Amount); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO delivery.accounts AS a (customer, owes) VALUES ($1, $2)
		ON CONFLICT (customer) DO UPDATE SET owes = a.owes + excluded.owes`, o.Customer, o.Amount)
	return err
}
