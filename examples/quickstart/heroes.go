package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Hero is the document kept for each hero.
type Hero struct {
	Name string `json:"name"`
	HP   int    `json:"hp"`
}

// Wound is the number of hit points that a hero loses.
type Wound struct {
	Points int `json:"points"`
}

// Event types and their payloads.
const (
	Joined  event.Type[Hero]  = "hero_joined"
	Wounded event.Type[Wound] = "hero_wounded"
)

func heroes() projection.Document[Hero] {
	return projection.Document[Hero]{
		Name: "heroes", Version: 1, Types: []string{string(Joined), string(Wounded)},
		Key: func(e event.Event) (string, error) { return e.AggregateID, nil },
		Fold: func(h *Hero, e event.Event) (err error) {
			if e.Type == string(Joined) {
				*h, err = Joined.Decode(e)
				return err
			}
			wound, err := Wounded.Decode(e)
			h.HP -= wound.Points
			return err
		},
	}
}

func wound(ctx context.Context, tx pgx.Tx, campaign, hero string) error { // tx is your own transaction
	e := Wounded.New(Wound{Points: 3})
	e.AggregateID = hero
	_, err := journal.Append(ctx, tx, campaign, journal.Any, e)
	return err
}
