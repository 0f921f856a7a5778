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
	return projection.Document[balance]{
		Name: "wallet_balances", Version: 1, Types: []string{opened, deposited, withdrawn, sent, received},
		Key: func(e event.Event) (string, error) { return e.AggregateID, nil },
		Fold: func(b *balance, e event.Event) error {
			m, err := event.Decode[moved](e)
			if e.Type == opened {
				b.Owner = m.Owner
				return err
			}
			b.Balance += change(e.Type, m.Amount)
			b.Movement++
			return err
		},
	}
}
