package projector

import (
	"math"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lease"
)

// unit is a campaign to bring forward under its lease: all projections that are in step from the checkpoint on, or one deferred projection from
// the place where it stands up to the checkpoint.
type unit struct {
	lease  lease.Lease
	pair   *pair // nil: live work
	place  int64 // the last seq done
	until  int64 // the last seq to do
	groups int   // groups it had a part in since it was claimed

	// Of the group under way:
	events  []journal.Event
	spoiled map[int64]error // by seq: events that cannot be brought to their current version
	more    bool            // there may be events beyond those read
}

// pair is what a row of tidemark.deferred says of where a projection stands.
type pair struct {
	CampaignID string
	Projection string
	NextSeq    int64
}

func live(l lease.Lease) *unit {
	return &unit{lease: l, place: l.Checkpoint, until: math.MaxInt64}
}

func catchUp(l lease.Lease, p *pair) *unit {
	return &unit{lease: l, pair: p, place: p.NextSeq - 1, until: l.Checkpoint}
}

func (u *unit) spoil(seq int64, err error) {
	if u.spoiled == nil {
		u.spoiled = map[int64]error{}
	}
	u.spoiled[seq] = err
}

// last is where the unit stands once its events are applied.
func (u *unit) last() int64 {
	if n := len(u.events); n > 0 {
		return u.events[n-1].Seq
	}
	return u.place
}

// step is what the group's end does to the unit's lease.
func (u *unit) step(release bool) lease.Step {
	s := lease.Step{CampaignID: u.lease.CampaignID, Generation: u.lease.Generation, From: u.lease.Checkpoint, To: u.lease.Checkpoint, Release: release}
	if u.pair == nil {
		s.To = u.last()
	}
	return s
}

// settle takes over what has been committed.
func (u *unit) settle() {
	u.place = u.last()
	if u.pair == nil {
		u.lease.Checkpoint = u.place
	}
	u.events = nil
}
