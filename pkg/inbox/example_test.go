package inbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/inbox"
	"github.com/tidemark-go/tidemark/pkg/webhook"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// consume applies the effects of an event once, however often a broker delivers it.
func consume(ctx context.Context, pool *pgxpool.Pool, campaignID string, eventID uuid.UUID, amount int) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		first, err := inbox.CheckAndMark(ctx, tx, "invoices", campaignID, eventID)
		if err != nil || !first {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE totals SET amount = amount + $1", amount)
		return err
	})
}

func ExampleCheckAndMark() {
	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		if _, err := pool.Exec(ctx, "CREATE TABLE totals AS SELECT 0 AS amount"); err != nil {
			return err
		}
		id := uuid.New()
		for range 3 { // the broker redelivers it
			if err := consume(ctx, pool, "oak", id, 40); err != nil {
				return err
			}
		}
		var total int
		err := pool.QueryRow(ctx, "SELECT amount FROM totals").Scan(&total)
		fmt.Println("total:", total)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: total: 40
}

// receiver returns a server for the webhooks of one sink.
func receiver(pool *pgxpool.Pool, secret webhook.Secret) (*http.Server, error) {
	handler, err := inbox.Webhook(inbox.WebhookConfig{
		DB: pool, Consumer: "invoices", Secrets: []webhook.Secret{secret},
	}, func(ctx context.Context, tx pgx.Tx, d inbox.Delivery) error {
		var envelope struct{ Data struct{ Amount int } }
		if err := json.Unmarshal(d.Body, &envelope); err != nil {
			return inbox.Refuse(err) // a retry cannot succeed
		}
		_, err := tx.Exec(ctx, "UPDATE totals SET amount = amount + $1", envelope.Data.Amount)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &http.Server{Handler: handler, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}, nil
}

func ExampleWebhook() {
	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		if _, err := pool.Exec(ctx, "CREATE TABLE totals AS SELECT 0 AS amount"); err != nil {
			return err
		}
		secret := webhook.NewSecret() // in production: webhook.ParseSecret(os.Getenv("WEBHOOK_SECRET"))
		server, err := receiver(pool, secret)
		if err != nil {
			return err
		}
		id := uuid.NewString()
		for range 3 { // the sender lost the response and retries
			fmt.Println(status(server.Handler, request(secret, id, `{"data": {"amount": 40}}`)))
		}
		var total int
		err = pool.QueryRow(ctx, "SELECT amount FROM totals").Scan(&total)
		fmt.Println("total:", total)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 204
	// 204
	// 204
	// total: 40
}
