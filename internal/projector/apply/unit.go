package apply

import (
	"context"
	"math"
	"slices"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Unit is a campaign to move forward under its lease: live work for all projections in step, from
// the checkpoint on; or one projection that is behind, from its place up to the checkpoint.
type Unit struct {
	Lease    lease.Lease
	Standing *failed.Standing // nil: live work
	Place    int64            // the last seq done
	Until    int64            // the last seq to do
	groups   int              // that were committed since its claim

	// Of the group under way:
	Events     []event.Event
	counted    int             // events known by number only: the database applies them
	hashed     *int64          // the hash of their ids; nil: not read yet
	Unreadable map[int64]error // by seq: why events cannot be brought to their current version
	More       bool            // there may be events beyond those read
	outdated   bool            // the campaign that is behind has changed since the claim
}

// Live returns the unit of a campaign for all projections in step.
func Live(l lease.Lease) *Unit {
	return &Unit{Lease: l, Place: l.Checkpoint, Until: math.MaxInt64}
}

// CatchUp returns the unit of a projection's campaign that is behind.
func CatchUp(l lease.Lease, p *failed.Standing) *Unit {
	return &Unit{Lease: l, Standing: p, Place: p.NextSeq - 1, Until: l.Checkpoint}
}

// Due returns the catch-up units of leased campaigns that are due. Units of one campaign are side by side.
func (a *Applier) Due(
	ctx context.Context, db event.Querier, leases []lease.Lease, projections []string,
) ([]*Unit, error) {
	ids, byID := make([]string, len(leases)), make(map[string]lease.Lease, len(leases))
	for i, l := range leases {
		ids[i], byID[l.CampaignID] = l.CampaignID, l
	}
	due, err := failed.Due(ctx, db, a.Cfg.ConsumerGroup, ids, projections)
	return slice.Of(due, func(d *failed.Standing) *Unit { return CatchUp(byID[d.CampaignID], d) }), err
}

// Probe limits the unit to the next event of its campaign. A projection that failed there is likely
// to fail again, and later events would have been read for nothing.
func (u *Unit) Probe() { u.Until = min(u.Until, u.Place+1) }

// probes reports whether events wait behind the one to which the unit is limited.
func (u *Unit) probes() bool { return u.Standing != nil && u.Until < u.Lease.Checkpoint }

// MarkUnreadable records why an event cannot be opened or brought to its current version.
func (u *Unit) MarkUnreadable(seq int64, err error) {
	if u.Unreadable == nil {
		u.Unreadable = map[int64]error{}
	}
	u.Unreadable[seq] = failure.Unreadable(err)
}

// Count returns how many events the group moves the unit forward.
func (u *Unit) Count() int { return len(u.Events) + u.counted }

// Last returns the last seq done once the unit's events are applied.
func (u *Unit) Last() int64 {
	if n := len(u.Events); n > 0 {
		return u.Events[n-1].Seq
	}
	return u.Place + int64(u.counted)
}

// step returns what the group's end does to the unit's lease.
func (u *Unit) step(release bool) lease.Step {
	s := lease.Step{
		CampaignID: u.Lease.CampaignID, Generation: u.Lease.Generation, From: u.Lease.Checkpoint,
		To: u.Lease.Checkpoint, Release: release,
	}
	if u.Standing == nil {
		s.To, s.Events, s.Hash = u.Last(), int64(u.Count()), u.hash()
	} else {
		s.Hash = new(int64) // of no events
	}
	return s
}

// hash returns the hash of the group's event ids, which proves later exactly what was applied; nil: unknown.
func (u *Unit) hash() *int64 {
	if u.counted > 0 {
		return u.hashed
	}
	hash := int64(0)
	for i := range u.Events {
		if feed.Archived(&u.Events[i]) {
			return nil
		}
		hash ^= feed.IDHash(u.Events[i].ID)
	}
	return &hash
}

// settle updates the unit to what has been committed.
func (u *Unit) settle() {
	u.Place = u.Last()
	if u.Standing == nil {
		u.Lease.Checkpoint = u.Place
	} else {
		u.Standing.Reset = false
	}
	u.Events, u.counted, u.hashed = nil, 0, nil
	u.groups++
}

// Unsuspected returns how many units come before the first suspect.
func Unsuspected(units []*Unit) int {
	if i := slices.IndexFunc(units, func(u *Unit) bool { return u.Lease.Suspect != nil }); i >= 0 {
		return i
	}
	return len(units)
}

// OfOneCampaign returns how many units at the front belong to one campaign: they share a lease and a transaction.
func OfOneCampaign(units []*Unit) int {
	n := 1
	for n < len(units) && units[n].Lease.CampaignID == units[0].Lease.CampaignID {
		n++
	}
	return n
}

// leasesOf returns the leases of units. Units of one campaign share one.
func leasesOf(units []*Unit) []lease.Lease {
	leases := slice.Of(units, func(u *Unit) lease.Lease { return u.Lease })
	return slices.CompactFunc(leases, func(a, b lease.Lease) bool { return a.CampaignID == b.CampaignID })
}

// Assignment is the work of a worker.
type Assignment struct {
	Units  []*Unit
	Opened *Transaction // has read its first group; nil: none has
}

// Take returns the opened transaction, once.
func (a *Assignment) Take() *Transaction {
	t := a.Opened
	a.Opened = nil
	return t
}

// Drop ends the opened transaction, unless it was taken.
func (a *Assignment) Drop(ctx context.Context) {
	if t := a.Take(); t != nil {
		t.Abort(ctx)
	}
}
