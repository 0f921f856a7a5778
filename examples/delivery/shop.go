package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// order is a row of the shop's own table.
type order struct {
	ID       int64  `json:"order"`
	Customer string `json:"customer"`
	Amount   int64  `json:"amount"`
}

// errChangedMind rolls back an order together with its event.
var errChangedMind = errors.New("the customer has changed their mind")

// shop places orders until there are enough. After a kill it continues behind the last committed
// order.
func shop(ctx context.Context, s settings) error {
	pool, err := pgxpool.New(ctx, s.url)
	if err != nil {
		return err
	}
	defer pool.Close()
	tick := time.NewTicker(max(s.pace, time.Microsecond))
	defer tick.Stop()
	for ; ; <-tick.C {
		o := order{Customer: fmt.Sprint("customer-", rand.IntN(20)), Amount: 1 + rand.Int64N(100)}
		if err := pool.QueryRow(ctx, "SELECT coalesce(max(id), 0) + 1 FROM delivery.orders").Scan(&o.ID); err != nil {
			return err
		}
		if o.ID > int64(s.orders) {
			return nil
		}
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := place(ctx, tx, o); err != nil {
				return err
			}
			if rand.IntN(10) == 0 {
				return errChangedMind
			}
			return nil
		})
		if err != nil && !errors.Is(err, errChangedMind) {
			return fmt.Errorf("place order %d: %w", o.ID, err)
		}
	}
}

// place writes an order and appends its event in one transaction: both commit, or neither.
func place(ctx context.Context, tx pgx.Tx, o order) error {
	if _, err := tx.Exec(ctx, "INSERT INTO delivery.orders (id, customer, amount) VALUES ($1, $2, $3)", o.ID, o.Customer,
		o.Amount); err != nil {
		return err
	}
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	placed := event.Event{Type: "order_placed", AggregateType: "order", AggregateID: fmt.Sprint(o.ID), Payload: payload}
	_, err = journal.Journal{}.Append(ctx, tx, o.Customer, journal.Any, placed)
	return err
}
