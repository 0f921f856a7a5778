package harness

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

//go:embed projections/*.sql
var sqlFiles embed.FS

// Kind is a way of writing the projection.
type Kind struct {
	Name  string
	Make  func() (projector.Projection, error)
	Count string // a query for the number of events in the read model; "": none
}

// SQLFile is the UPSERT in a file, as the stock worker runs it.
func SQLFile() Kind {
	return Kind{Name: "SQL file", Count: CountCharacters, Make: func() (projector.Projection, error) {
		dir, err := fs.Sub(sqlFiles, "projections")
		if err != nil {
			return nil, fmt.Errorf("open the projections: %w", err)
		}
		return sqlfile.Load(dir, "characters.sql")
	}}
}

// GoHandler queues the UPSERT from Go.
func GoHandler() Kind {
	return Kind{Name: "Go handler", Count: CountCharacters, Make: func() (projector.Projection, error) {
		h := projector.NewHandlers(projector.Spec{Name: "characters", Version: 1, Tables: CreateCharacters})
		projector.On(h, EventType, func(_ context.Context, g *projector.Group, e journal.Event, d DamageTaken) error {
			g.Queue(UpsertCharacter, e.CampaignID, d.CharacterID, d.Damage)
			return nil
		})
		return h, nil
	}}
}

// Character is the document of one character, like a row of the table characters.
type Character struct {
	Damage int64 `json:"damage"`
	Events int64 `json:"events"`
}

// DocumentFold folds the same sums in memory and writes each character once for each group.
func DocumentFold() Kind {
	const count = `SELECT coalesce(sum((doc ->> 'events')::bigint), 0)::bigint FROM characters`
	return Kind{Name: "document", Count: count, Make: func() (projector.Projection, error) {
		return projector.NewDocument(projector.Document[Character]{
			Name: "characters", Version: 1, Types: []string{EventType},
			Key: func(e journal.Event) (string, error) {
				d, err := journal.Decode[DamageTaken](e)
				return d.CharacterID, err
			},
			Fold: func(c *Character, e journal.Event) error {
				d, err := journal.Decode[DamageTaken](e)
				c.Damage += d.Damage
				c.Events++
				return err
			},
		}), nil
	}}
}

// NoOp is a handler that does nothing. It leaves the cost of reading, the checkpoints and the
// queue.
func NoOp() Kind {
	return Kind{Name: "no-op", Make: func() (projector.Projection, error) {
		h := projector.NewHandlers(projector.Spec{Name: "nothing", Version: 1})
		projector.On(h, EventType, func(context.Context, *projector.Group, journal.Event, DamageTaken) error { return nil })
		return h, nil
	}}
}
