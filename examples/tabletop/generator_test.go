package tabletop_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

func TestGeneratorSaysTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		config := drawConfig(t)
		one, other := tabletop.NewGenerator(config), tabletop.NewGenerator(config)
		for range rapid.IntRange(1, 500).Draw(t, "decisions") {
			a, b := one.Next(), other.Next()
			if a.CampaignID != b.CampaignID || a.Expect != b.Expect || !slices.EqualFunc(a.Events, b.Events, sameEvent) {
				t.Fatalf("with the same seed, one decided %+v and the other %+v", a, b)
			}
		}
	})
}

func TestGeneratorSaysSomethingElseForAnotherSeed(t *testing.T) {
	t.Parallel()
	one, other := tabletop.NewGenerator(tabletop.GeneratorConfig{Seed: 1}),
		tabletop.NewGenerator(tabletop.GeneratorConfig{Seed: 2})
	if a, b := one.Next(), other.Next(); a.CampaignID == b.CampaignID || a.Events[0].ID == b.Events[0].ID {
		t.Fatalf("seeds 1 and 2 both began with campaign %s, event %s", a.CampaignID, a.Events[0].ID)
	}
}

func TestGeneratorKeepsToTheRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		generator := tabletop.NewGenerator(drawConfig(t))
		tables := map[string]*referee{}
		ids := map[uuid.UUID]bool{}
		for range rapid.IntRange(1, 3000).Draw(t, "decisions") {
			decision := generator.Next()
			table := tables[decision.CampaignID]
			if table == nil {
				table = newReferee()
				tables[decision.CampaignID] = table
			}
			if decision.Expect != journal.Exactly(table.seq) {
				t.Fatalf("campaign %s stands at %d, the decision expects %+v", decision.CampaignID, table.seq, decision.Expect)
			}
			if len(decision.Events) == 0 {
				t.Fatalf("nothing was decided in campaign %s", decision.CampaignID)
			}
			for _, e := range decision.Events {
				if ids[e.ID] || e.ID.Version() != 7 || e.ID.Variant() != uuid.RFC4122 {
					t.Fatalf("event id %s is not a new UUIDv7", e.ID)
				}
				ids[e.ID] = true
				if err := table.judge(e); err != nil {
					t.Fatalf("campaign %s, event %d (%s %s): %v", decision.CampaignID, table.seq, e.Type, e.Payload, err)
				}
			}
			if err := table.endOfDecision(); err != nil {
				t.Fatalf("campaign %s after event %d: %v", decision.CampaignID, table.seq, err)
			}
		}
	})
}

func TestGeneratorTellsEveryTypeOfEventAndMostAtFewTables(t *testing.T) {
	t.Parallel()
	generator := tabletop.NewGenerator(tabletop.GeneratorConfig{Seed: 7, Campaigns: 200})
	types, campaigns := map[string]int{}, map[string]int{}
	const decisions = 30_000
	for range decisions {
		decision := generator.Next()
		campaigns[decision.CampaignID]++
		for _, e := range decision.Events {
			types[e.Type]++
		}
	}
	if len(types) != 22 {
		t.Errorf("the generator told %d of the 22 types of events: %v", len(types), types)
	}
	var counts []int
	for _, n := range campaigns {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	tail := 0
	for _, n := range counts[:len(counts)/2] {
		tail += n
	}
	// An even generator would give this half of the campaigns half of the decisions.
	if share := float64(tail) / decisions; share > 0.2 {
		t.Errorf("the quiet half of the campaigns has %.0f %% of the decisions: that is no long tail", 100*share)
	}
}

func drawConfig(t *rapid.T) tabletop.GeneratorConfig {
	return tabletop.GeneratorConfig{
		Seed:      rapid.Uint64().Draw(t, "seed"),
		Campaigns: rapid.IntRange(1, 50).Draw(t, "campaigns"),
	}
}

func sameEvent(a, b event.Event) bool {
	return a.ID == b.ID && a.Type == b.Type && a.AggregateType == b.AggregateType && a.AggregateID == b.AggregateID &&
		a.Actor == b.Actor &&
		slices.Equal(a.Tags, b.Tags) && string(a.Payload) == string(b.Payload) && a.OccurredAt.Equal(b.OccurredAt)
}
