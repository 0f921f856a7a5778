package projector

import (
	"slices"

	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/journal"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/registry"
)

// Events that operators have resolved are left out by all that applies a campaign again: pairs, copies of a rebuild, scratch tables. Live work does not look for them: an event is resolved only
// behind the checkpoint. The exception is a projection that was removed and registered again (registered.ResolvedAhead).

// queueLeftOut queues a read of what is left out in campaigns.
func (t *transaction) queueLeftOut(campaignIDs []string) {
	t.Sync()
	deferred.LeftOut(t.Batch, campaignIDs, t.leaveOut)
}

func (t *transaction) leaveOut(projection, campaignID string, seq int64) {
	if t.leftOut == nil {
		t.leftOut = map[deferred.Key][]int64{}
	}
	key := deferred.Key{Projection: projection, CampaignID: campaignID}
	t.leftOut[key] = append(t.leftOut[key], seq)
}

// leavesOut says whether the event is left out of the projection.
func (t *transaction) leavesOut(k *registry.Known, e *journal.Event) bool {
	return t.leftOut != nil && slices.Contains(t.leftOut[deferred.Key{Projection: k.Described.Name, CampaignID: e.CampaignID}], e.Seq)
}

// wants says whether the projection is to apply the event.
func (t *transaction) wants(k *registry.Known, e *journal.Event) bool {
	return k.Wants(e) && !t.leavesOut(k, e)
}

// stretches are parts of campaigns, each after one event up to another, in the order in which they are applied.
type stretches struct {
	campaigns    []string
	after, until []int64
}

// stretch adds a part of a campaign without the events that are left out of the projection.
func (t *transaction) stretch(s *stretches, k *registry.Known, campaignID string, after, until int64) {
	for _, seq := range slices.Sorted(slices.Values(t.leftOut[deferred.Key{Projection: k.Described.Name, CampaignID: campaignID}])) {
		if seq > after && seq <= until {
			s.add(campaignID, after, seq-1)
			after = seq
		}
	}
	s.add(campaignID, after, until)
}

func (s *stretches) add(campaignID string, after, until int64) {
	if after < until {
		s.campaigns, s.after, s.until = append(s.campaigns, campaignID), append(s.after, after), append(s.until, until)
	}
}

func (t *transaction) campaigns() []string {
	ids := make([]string, len(t.units))
	for i, u := range t.units {
		ids[i] = u.lease.CampaignID
	}
	return ids
}
