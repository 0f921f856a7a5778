package apply

import (
	"slices"

	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector/internal/registry"
)

// Events that operators have resolved are left out by all that applies a campaign again: pairs, copies of a rebuild, scratch tables. Live work does not look for them: an event is resolved only
// behind the checkpoint. The exception is a projection that was removed and registered again (registered.ResolvedAhead).

// queueLeftOut queues a read of what is left out in campaigns.
func (t *Transaction) queueLeftOut(campaignIDs []string) {
	t.Sync()
	deferred.LeftOut(t.Batch, campaignIDs, t.LeaveOut)
}

// LeaveOut notes that operators have left an event out for a projection.
func (t *Transaction) LeaveOut(projection, campaignID string, seq int64) {
	if t.LeftOut == nil {
		t.LeftOut = map[deferred.Key][]int64{}
	}
	key := deferred.Key{Projection: projection, CampaignID: campaignID}
	t.LeftOut[key] = append(t.LeftOut[key], seq)
}

// LeavesOut says whether the event is left out of the projection.
func (t *Transaction) LeavesOut(k *registry.Known, e *journal.Event) bool {
	return t.LeftOut != nil && slices.Contains(t.LeftOut[deferred.Key{Projection: k.Described.Name, CampaignID: e.CampaignID}], e.Seq)
}

// Wants says whether the projection is to apply the event.
func (t *Transaction) Wants(k *registry.Known, e *journal.Event) bool {
	return k.Wants(e) && !t.LeavesOut(k, e)
}

// Stretches are parts of campaigns, each after one event up to another, in the order in which they are applied.
type Stretches struct {
	Campaigns    []string
	After, Until []int64
}

// Stretch adds a part of a campaign without the events that are left out of the projection.
func (t *Transaction) Stretch(s *Stretches, k *registry.Known, campaignID string, after, until int64) {
	for _, seq := range slices.Sorted(slices.Values(t.LeftOut[deferred.Key{Projection: k.Described.Name, CampaignID: campaignID}])) {
		if seq > after && seq <= until {
			s.add(campaignID, after, seq-1)
			after = seq
		}
	}
	s.add(campaignID, after, until)
}

func (s *Stretches) add(campaignID string, after, until int64) {
	if after < until {
		s.Campaigns, s.After, s.Until = append(s.Campaigns, campaignID), append(s.After, after), append(s.Until, until)
	}
}

func (t *Transaction) campaigns() []string {
	ids := make([]string, len(t.Units))
	for i, u := range t.Units {
		ids[i] = u.Lease.CampaignID
	}
	return ids
}
