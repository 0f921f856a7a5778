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
		Name: "heroes", Version: 1,
		Key: func(e event.Event) (string, error) { return e.AggregateID, nil },
		On: event.Folds[Hero]{
			event.On(Joined, func(h *Hero, _ event.Event, joined Hero) error {
				*h = joined
				return nil
			}),
			event.On(Wounded, func(h *Hero, _ event.Event, w Wound) error {
				h.HP -= w.Points
				return nil
			}),
		},
	}
}

func wound(ctx context.Context, tx pgx.Tx, campaign, hero string) error { // tx is your own transaction
	e := Wounded.New(Wound{Points: 3})
	e.AggregateID = hero
	_, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any, e)
	return err
}
