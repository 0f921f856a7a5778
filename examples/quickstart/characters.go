package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// Character is the document kept of each character.
type Character struct {
	Name string `json:"name"`
	HP   int    `json:"hp"`
}

func characters() projector.Projection {
	return projector.NewDocument(projector.Document[Character]{
		Name: "characters", Version: 1, Types: []string{"character_created", "character_damaged"},
		Key: func(e journal.Event) (string, error) { return e.AggregateID, nil },
		Fold: func(c *Character, e journal.Event) error {
			if e.Type == "character_created" {
				return json.Unmarshal(e.Payload, c)
			}
			hit, err := journal.Decode[struct{ Points int }](e)
			c.HP -= hit.Points
			return err
		},
	})
}

func hit(ctx context.Context, tx pgx.Tx, campaign, character string) error { // tx is your own transaction
	e := journal.Event{Type: "character_damaged", AggregateID: character, Payload: json.RawMessage(`{"points": 3}`)}
	_, err := journal.Append(ctx, tx, campaign, journal.Any, e)
	return err
}
