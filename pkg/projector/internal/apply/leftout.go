package apply

import (
	"github.com/tidemark-go/tidemark/internal/store/deferred"
)

// Events that operators have resolved are left out by all that applies a campaign again: pairs,
// copies of a rebuild, scratch tables. Live work does not look for them: an event is resolved only
// behind the checkpoint. The exception is a projection that was removed and registered again
// (registered.ResolvedAhead).

// queueLeftOut queues a read of what is left out in campaigns.
func (t *Transaction) queueLeftOut(campaignIDs []string) {
	t.Sync()
	deferred.LeftOut(t.Batch, campaignIDs, t.LeaveOut)
}

// Stretches are parts of campaigns, each after one event up to another, in the order in which they are applied.
type Stretches struct {
	Campaigns    []string
	After, Until []int64
}

func (s *Stretches) add(campaignID string, after, until int64) {
	if after < until {
		s.Campaigns, s.After, s.Until = append(s.Campaigns, campaignID), append(s.After, after), append(s.Until, until)
	}
}
