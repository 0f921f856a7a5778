package projector

import (
	"context"
	"math"

	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lease"
)

// unit is a campaign to bring forward under its lease: all projections that are in step from the checkpoint on, or one deferred projection from
// the place where it stands up to the checkpoint.
type unit struct {
	lease  lease.Lease
	pair   *deferred.Standing // nil: live work
	place  int64              // the last seq done
	until  int64              // the last seq to do
	groups int                // groups it had a part in since it was claimed

	// Of the group under way:
	events   []journal.Event
	counted  int             // events that are known by number only: the database applies them
	hashed   *int64          // the hash of their ids; nil: nobody has looked at them
	spoiled  map[int64]error // by seq: events that cannot be brought to their current version
	more     bool            // there may be events beyond those read
	outdated bool            // the pair is not any more what it was
}

func live(l lease.Lease) *unit {
	return &unit{lease: l, place: l.Checkpoint, until: math.MaxInt64}
}

func catchUp(l lease.Lease, p *deferred.Standing) *unit {
	return &unit{lease: l, pair: p, place: p.NextSeq - 1, until: l.Checkpoint}
}

// probe bounds the unit to the event that its pair stands before. A pair that has failed there is likely to fail again, and what waits behind it would have been read for nothing.
func (u *unit) probe() { u.until = min(u.until, u.place+1) }

// probes says whether something waits behind the event to which the unit is bounded.
func (u *unit) probes() bool { return u.pair != nil && u.until < u.lease.Checkpoint }

func (u *unit) spoil(seq int64, err error) {
	if u.spoiled == nil {
		u.spoiled = map[int64]error{}
	}
	u.spoiled[seq] = err
}

// count is the number of events that the group brings the unit forward.
func (u *unit) count() int { return len(u.events) + u.counted }

// last is where the unit stands once its events are applied.
func (u *unit) last() int64 {
	if n := len(u.events); n > 0 {
		return u.events[n-1].Seq
	}
	return u.place + int64(u.counted)
}

// step is what the group's end does to the unit's lease.
func (u *unit) step(release bool) lease.Step {
	s := lease.Step{CampaignID: u.lease.CampaignID, Generation: u.lease.Generation, From: u.lease.Checkpoint, To: u.lease.Checkpoint, Release: release}
	if u.pair == nil {
		s.To, s.Events, s.Hash = u.last(), int64(u.count()), u.hash()
	} else {
		s.Hash = new(int64) // of no events
	}
	return s
}

// hash is that of the ids of the group's events, by which it can be proved later that these were applied, and no others; nil: it is not known.
func (u *unit) hash() *int64 {
	if u.counted > 0 {
		return u.hashed
	}
	hash := int64(0)
	for i := range u.events {
		hash ^= journal.IDHash(u.events[i].ID)
	}
	return &hash
}

// settle takes over what has been committed.
func (u *unit) settle() {
	u.place = u.last()
	if u.pair == nil {
		u.lease.Checkpoint = u.place
	} else {
		u.pair.Reset = false
	}
	u.events, u.counted, u.hashed = nil, 0, nil
}

// unsuspected is how many of the units come before the first suspect.
func unsuspected(units []*unit) int {
	for i, u := range units {
		if u.lease.Suspect != nil {
			return i
		}
	}
	return len(units)
}

// ofOneCampaign is how many of the units are the first one's campaign's: several pairs of one campaign share a lease, and so a transaction.
func ofOneCampaign(units []*unit) int {
	n := 1
	for n < len(units) && units[n].lease.CampaignID == units[0].lease.CampaignID {
		n++
	}
	return n
}

// assignment is what a worker is to bring forward.
type assignment struct {
	units  []*unit
	opened *transaction // has read the first group of them; nil: none has
}

// take answers the transaction that has read, once.
func (a *assignment) take() *transaction {
	t := a.opened
	a.opened = nil
	return t
}

// drop ends the transaction that nobody took.
func (a *assignment) drop(ctx context.Context) {
	if t := a.take(); t != nil {
		t.abort(ctx)
	}
}
