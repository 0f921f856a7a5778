package main

import (
	"time"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// day is the read model of a day: what all wallets have taken in and given out, in cents.
type day struct {
	Deposited   int64 `json:"deposited"`
	Withdrawn   int64 `json:"withdrawn"`
	Transferred int64 `json:"transferred"`
}

// days keeps one document for each day in UTC, across all wallets.
func days() projection.Document[day] {
	return projection.Document[day]{
		Name: "wallet_days", Version: 1, Types: []string{deposited, withdrawn, sent}, Scope: projection.ScopeJournal,
		Key: func(e event.Event) (string, error) { return e.OccurredAt.UTC().Format(time.DateOnly), nil },
		Fold: func(d *day, e event.Event) error {
			m, err := event.Decode[moved](e)
			switch e.Type {
			case deposited:
				d.Deposited += m.Amount
			case withdrawn:
				d.Withdrawn += m.Amount
			case sent:
				d.Transferred += m.Amount
			}
			return err
		},
	}
}
