package apply

import (
	"slices"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// groupState is a transaction's group: its units and their events, their rows of the registry and
// of tidemark.failed, and the failures. It sends nothing.
type groupState struct {
	Units     []*Unit
	view      *registry.View
	standings map[string]map[string]*failed.Standing // campaigns that are behind, by campaign and projection
	// events that operators have resolved, by projection (without its table set) and campaign
	LeftOut  map[failed.Key][]int64
	Events   []event.Event // of all units, in order
	failures []*incident
	verdicts map[failure.Verdict]error // known failures of events, before they are tried
}

// stop adds a campaign that is behind: its projection leaves it out.
func (h *groupState) stop(d *failed.Standing) {
	if h.standings[d.CampaignID] == nil {
		h.standings[d.CampaignID] = map[string]*failed.Standing{}
	}
	h.standings[d.CampaignID][d.Projection] = d
}

// task returns a unit's events for a projection. An event that is known to fail is not tried.
func (h *groupState) task(k *registry.Projection, u *Unit) *task {
	one := &task{k: k, unit: u, events: u.Events}
	for i := range u.Events {
		if !h.Wants(k, &u.Events[i]) {
			one.events = slices.DeleteFunc(slices.Clone(u.Events), func(e event.Event) bool { return !h.Wants(k, &e) })
			break
		}
	}
	for i := 0; i < len(one.events); {
		if cause := h.verdict(k, u, &one.events[i]); cause == nil || !one.dropFailed(one.events[i].Seq, cause) {
			i++
		}
	}
	return one
}

// applies reports whether the unit moves the projection forward.
func (h *groupState) applies(k *registry.Projection, u *Unit) bool {
	if u.Standing != nil {
		return u.Standing.Projection == k.Name && !u.outdated
	}
	return h.view.Rows[k.Name].Moves() && h.standings[u.Lease.CampaignID][k.Name] == nil
}

// wanted returns the events of the units that a projection applies, in order.
func (h *groupState) wanted(k *registry.Projection) ([]event.Event, error) {
	n, total := 0, 0
	for _, u := range h.Units {
		total += len(u.Events)
		if !h.applies(k, u) {
			continue
		}
		for i := range u.Events {
			if !h.Wants(k, &u.Events[i]) {
				continue
			}
			if err := u.Unreadable[u.Events[i].Seq]; err != nil {
				return nil, k.Origin(u.Events[i]).Wrap(err)
			}
			n++
		}
	}
	switch {
	case n == 0:
		return nil, nil
	case n == len(h.Events) && total == n:
		return h.Events, nil
	}
	wanted := make([]event.Event, 0, n)
	for _, u := range h.Units {
		if !h.applies(k, u) {
			continue
		}
		for i := range u.Events {
			if h.Wants(k, &u.Events[i]) {
				wanted = append(wanted, u.Events[i])
			}
		}
	}
	return wanted, nil
}

// stopped returns how many of the events a projection has not applied, because it failed.
func (h *groupState) stopped(k *registry.Projection) (n int) {
	for _, f := range h.failures {
		if f.Projection != k.Name {
			continue
		}
		if f.policy.Action == projection.ActionSkip {
			n++
			continue
		}
		for _, u := range h.Units {
			if u.Lease.CampaignID == f.CampaignID && h.applies(k, u) {
				n += int(u.Last() - f.Seq + 1)
			}
		}
	}
	return n
}

// hasFailed reports whether a catch-up unit's projection has failed and stays where it did.
func (h *groupState) hasFailed(u *Unit) bool {
	return slices.ContainsFunc(h.failures, func(f *incident) bool {
		return f.CampaignID == u.Lease.CampaignID && f.Projection == u.Standing.Projection &&
			f.policy.Action != projection.ActionSkip
	})
}

// LeaveOut records that the projection leaves out an event, because an operator has resolved it.
func (h *groupState) LeaveOut(projection, campaignID string, seq int64) {
	if h.LeftOut == nil {
		h.LeftOut = map[failed.Key][]int64{}
	}
	key := failed.Key{Projection: projection, CampaignID: campaignID}
	h.LeftOut[key] = append(h.LeftOut[key], seq)
}

// LeavesOut reports whether the projection leaves out the event.
func (h *groupState) LeavesOut(k *registry.Projection, e *event.Event) bool {
	return h.LeftOut != nil &&
		slices.Contains(h.LeftOut[failed.Key{Projection: k.Described.Name, CampaignID: e.CampaignID}], e.Seq)
}

// Wants reports whether the projection applies the event.
func (h *groupState) Wants(k *registry.Projection, e *event.Event) bool {
	return k.Wants(e) && !h.LeavesOut(k, e)
}

// Stretch adds a campaign's events after one seq up to another, without those that the projection leaves out.
func (h *groupState) Stretch(s *Stretches, k *registry.Projection, campaignID string, after, until int64) {
	leftOut := h.LeftOut[failed.Key{Projection: k.Described.Name, CampaignID: campaignID}]
	for _, seq := range slices.Sorted(slices.Values(leftOut)) {
		if seq > after && seq <= until {
			s.add(campaignID, after, seq-1)
			after = seq
		}
	}
	s.add(campaignID, after, until)
}

// count returns how many events the group moves its units forward.
func (h *groupState) count() (n int) {
	for _, u := range h.Units {
		n += u.Count()
	}
	return n
}

func (h *groupState) campaigns() []string {
	return slice.Of(h.Units, func(u *Unit) string { return u.Lease.CampaignID })
}

// verdict returns what is known of an event before it is tried: it cannot be read, or the
// projection failed on it in a way that cost the transaction. It returns nil if nothing is known.
func (h *groupState) verdict(k *registry.Projection, u *Unit, e *event.Event) error {
	if err := u.Unreadable[e.Seq]; err != nil {
		return err
	}
	return h.verdicts[failure.Verdict{Projection: k.Name, CampaignID: e.CampaignID, Seq: e.Seq}]
}

// queueLeftOut queues a read of the events that operators have resolved in campaigns. Applying a
// campaign again leaves them out. Live work meets such an event only if View.Ahead is set.
func (t *Transaction) queueLeftOut(campaignIDs []string) {
	t.Sync()
	failed.LeftOut(t.Batch, campaignIDs, t.LeaveOut)
}

// Stretches lists parts of campaigns, each after one seq up to another, in the order of applying.
type Stretches struct {
	Campaigns    []string
	After, Until []int64
}

func (s *Stretches) add(campaignID string, after, until int64) {
	if after < until {
		s.Campaigns, s.After, s.Until = append(s.Campaigns, campaignID), append(s.After, after), append(s.Until, until)
	}
}
