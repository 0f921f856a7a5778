package tabletop_test

import (
	"fmt"

	"github.com/tidemark-go/tidemark/examples/tabletop"
)

// The same seed plays the same game. This is how a campaign with seed 1 begins.
func ExampleGenerator() {
	generator := tabletop.NewGenerator(tabletop.GeneratorConfig{Seed: 1, Campaigns: 1})
	for range 4 {
		decision := generator.Next()
		for _, event := range decision.Events {
			fmt.Println(decision.CampaignID, event.Type, string(event.Payload))
		}
	}
	// Output:
	// game-1-1-000001 campaign_created {"name":"The Forgotten Gate","system":"pulp-dice"}
	// game-1-1-000001 participant_joined {"participant_id":"participant-1","name":"Noor","role":"game_master","seat":1}
	// game-1-1-000001 invite_created {"invite_id":"invite-2","recipient":"Ada"}
	// game-1-1-000001 invite_created {"invite_id":"invite-3","recipient":"Goran"}
	// game-1-1-000001 invite_declined {"invite_id":"invite-2"}
}
