package tabletop_test

import (
	"slices"
	"testing"

	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector/projectiontest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestProjectionsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	projections, err := tabletop.Projections()
	if err != nil {
		t.Fatal(err)
	}
	if len(projections) != 7 {
		t.Errorf("there are %d projections, wanted campaigns, characters, participants, players, invites, leaderboard and "+
			"sessions", len(projections))
	}
	pool := pgtest.New(t)
	for _, p := range projections {
		if p.Spec().Scope == projection.ScopeJournal {
			continue // it depends on the order of campaigns; Verify compares it with the journal in this order
		}
		t.Run(p.Spec().Name, func(t *testing.T) {
			projectiontest.Run(t, pool, p, someEvents(p.Spec().Types, 30))
		})
	}
}

// someEvents returns the first count events of the given types at three tables.
func someEvents(types []string, count int) []event.Event {
	generator := tabletop.NewGenerator(tabletop.GeneratorConfig{Seed: 11, Campaigns: 3})
	var events []event.Event
	for len(events) < count {
		decision := generator.Next()
		for _, e := range decision.Events {
			if slices.Contains(types, e.Type) {
				e.CampaignID, e.Intent = decision.CampaignID, intentOf(e.Type)
				events = append(events, e)
			}
		}
	}
	return events
}
