package main

import (
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// balance is the read model of a wallet.
type balance struct {
	Owner    string `json:"owner"`
	Balance  int64  `json:"balance"` // in cents
	Movement int    `json:"movements"`
}

// balances keeps one document for each wallet.
func balances() projection.Document[balance] {
	move := func(sign int64) func(b *balance, _ event.Event, m moved) error {
		return func(b *balance, _ event.Event, m moved) error {
			b.Balance += sign * m.Amount
			b.Movement++
			return nil
		}
	}
	return projection.Document[balance]{
		Name: "wallet_balances", Version: 1,
		Key: func(e event.Event) (string, error) { return e.AggregateID, nil },
		On: event.Folds[balance]{
			event.On(opened, func(b *balance, _ event.Event, m moved) error {
				b.Owner = m.Owner
				return nil
			}),
			event.On(deposited, move(1)),
			event.On(received, move(1)),
			event.On(withdrawn, move(-1)),
			event.On(sent, move(-1)),
		},
	}
}
