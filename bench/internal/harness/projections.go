package harness

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

//go:embed projections/*.sql
var sqlFiles embed.FS

// Kind is a way of writing the projection.
type Kind struct {
	Name  string
	Make  func() (projection.Projection, error)
	Count string // a query for the number of events in the read model; "": none
}

// SQLFile is the UPSERT in a file, as the stock worker runs it.
func SQLFile() Kind {
	return Kind{Name: "SQL file", Count: CountCharacters, Make: func() (projection.Projection, error) {
		dir, err := fs.Sub(sqlFiles, "projections")
		if err != nil {
			return nil, fmt.Errorf("open the projections: %w", err)
		}
		return sqlfile.Load(dir, "characters.sql")
	}}
}

// GoHandler queues the UPSERT from Go.
func GoHandler() Kind {
	return Kind{Name: "Go handler", Count: CountCharacters, Make: func() (projection.Projection, error) {
		h := &projection.Handlers{
			Name: "characters", Version: 1, Tables: CreateCharacters,
			On: []projection.Handler{
				projection.Handle(EventType, func(_ context.Context, g *projection.Group, e event.Event, d DamageTaken) error {
					g.Queue(UpsertCharacter, e.CampaignID, d.CharacterID, d.Damage)
					return nil
				}),
			},
		}
		return h, nil
	}}
}

// Character is the document of one character, like a row of the table characters.
type Character struct {
	Damage int64 `json:"damage"`
	Events int64 `json:"events"`
}

// DocumentFold folds the same sums in memory and writes each character once for each group.
func DocumentFold() Kind { return documents("document", characters()) }

// DocumentAcross is the same for characters that go from campaign to campaign.
func DocumentAcross(partitions int) Kind {
	return documents(fmt.Sprintf("document, partitions: %d", partitions), AcrossDocument(partitions))
}

// AcrossDocument is the document of [DocumentAcross].
func AcrossDocument(partitions int) projection.Document[Character] {
	d := characters()
	d.Scope, d.Partitions = projection.ScopeJournal, partitions
	return d
}

func documents(name string, d projection.Document[Character]) Kind {
	return Kind{Name: name, Count: CountDocuments, Make: func() (projection.Projection, error) {
		return d, nil
	}}
}

func characters() projection.Document[Character] {
	return projection.Document[Character]{
		Name: "characters", Version: 1, Types: []string{EventType}, Key: CharacterOf,
		Fold: func(c *Character, e event.Event) error {
			d, err := event.Decode[DamageTaken](e)
			c.Damage += d.Damage
			c.Events++
			return err
		},
	}
}

// CharacterOf returns the character that an event is about.
func CharacterOf(e event.Event) (string, error) {
	d, err := event.Decode[DamageTaken](e)
	return d.CharacterID, err
}

// NoOp is a handler that does nothing. It leaves the cost of reading, the checkpoints and the
// queue.
func NoOp() Kind {
	return Kind{Name: "no-op", Make: func() (projection.Projection, error) {
		h := &projection.Handlers{
			Name: "nothing", Version: 1,
			On: []projection.Handler{
				projection.Handle(EventType, func(context.Context, *projection.Group, event.Event, DamageTaken) error { return nil }),
			},
		}
		return h, nil
	}}
}
