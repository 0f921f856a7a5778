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
		Name: "wallet_days", Version: 1, Scope: projection.ScopeJournal,
		Key: func(e event.Event) (string, error) { return e.OccurredAt.UTC().Format(time.DateOnly), nil },
		On: event.Folds[day]{
			event.On(deposited, func(d *day, _ event.Event, m moved) error {
				d.Deposited += m.Amount
				return nil
			}),
			event.On(withdrawn, func(d *day, _ event.Event, m moved) error {
				d.Withdrawn += m.Amount
				return nil
			}),
			event.On(sent, func(d *day, _ event.Event, m moved) error {
				d.Transferred += m.Amount
				return nil
			}),
		},
	}
}
