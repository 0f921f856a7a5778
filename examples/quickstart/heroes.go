package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// Hero is the document kept of each hero.
type Hero struct {
	Name string `json:"name"`
	HP   int    `json:"hp"`
}

func heroes() projector.Projection {
	return projector.NewDocument(projector.Document[Hero]{
		Name: "heroes", Version: 1, Types: []string{"hero_joined", "hero_wounded"},
		Key: func(e journal.Event) (string, error) { return e.AggregateID, nil },
		Fold: func(h *Hero, e journal.Event) error {
			if e.Type == "hero_joined" {
				return json.Unmarshal(e.Payload, h)
			}
			wound, err := journal.Decode[struct{ Points int }](e)
			h.HP -= wound.Points
			return err
		},
	})
}

func wound(ctx context.Context, tx pgx.Tx, campaign, hero string) error { // tx is your own transaction
	e := journal.Event{Type: "hero_wounded", AggregateID: hero, Payload: json.RawMessage(`{"points": 3}`)}
	_, err := journal.Append(ctx, tx, campaign, journal.Any, e)
	return err
}
