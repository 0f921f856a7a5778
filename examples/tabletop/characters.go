package tabletop

import (
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Character is a row of the table characters: one document for each character in play.
type Character struct {
	ParticipantID string `json:"participant_id"`
	Name          string `json:"name"`
	Class         string `json:"class"`
	Level         int    `json:"level"`
	HitPoints     int    `json:"hit_points"`
	MaxHitPoints  int    `json:"max_hit_points"`
}

// Characters is a document projection with several documents for each campaign. A document is
// deleted with its character.
func Characters() projection.Projection {
	return projection.Document[Character]{
		Name:    "characters",
		Version: 1,
		Types: []string{
			CharacterCreatedType, CharacterUpdatedType, CharacterDamagedType, CharacterHealedType,
			CharacterDeletedType,
		},
		Columns: "name text GENERATED ALWAYS AS (doc->>'name') STORED, hit_points integer GENERATED ALWAYS AS " +
			"((doc->>'hit_points')::integer) STORED",
		Key:  func(e event.Event) (string, error) { return e.AggregateID, nil },
		Fold: (*Character).fold,
	}
}

func (c *Character) fold(e event.Event) error {
	switch e.Type {
	case CharacterCreatedType:
		p, err := event.Decode[CharacterCreated](e)
		*c = Character{
			ParticipantID: p.ParticipantID, Name: p.Name, Class: p.Class,
			Level: 1, HitPoints: p.MaxHitPoints, MaxHitPoints: p.MaxHitPoints,
		}
		return err
	case CharacterUpdatedType:
		p, err := event.Decode[CharacterUpdated](e)
		c.Level, c.MaxHitPoints = p.Level, p.MaxHitPoints
		return err
	case CharacterDamagedType:
		p, err := event.Decode[CharacterDamaged](e)
		c.HitPoints -= p.Amount
		return err
	case CharacterHealedType:
		p, err := event.Decode[CharacterHealed](e)
		c.HitPoints += p.Amount
		return err
	case CharacterDeletedType:
		return event.Delete
	}
	return nil
}
