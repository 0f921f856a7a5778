package claim

import (
	"time"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// way is how campaigns with live work are claimed.
type way string

const (
	around way = "around the outbox"  // from where the last such claim has stopped
	ahead  way = "with the events"    // the same, and the events of the first group are read in the same round trip
	recent way = "from recent events" // campaigns of new events, and some others in turn
)

const (
	// Once a claim around the outbox meets more dead rows than this, plus so many for each campaign that
	// it finds (a few milliseconds, and a quarter each), others are claims from recent events: until the
	// rows are gone. While there is no work, claims around still get a twentieth of the time. See
	// docs/adr/0020.
	aroundShare  = 20
	freeDead     = 10_000
	freeDeadEach = 1000
	aroundIdle   = time.Second

	// Claims from recent events look at so many other campaigns in turn, so often: a fiftieth of the time.
	turnSize  = 16
	turnEvery = 10 * time.Millisecond
)

// past is what earlier claims tell the next one.
type past struct {
	by     way          // of the last one
	cursor string       // where claims around the outbox go on
	recent lease.Recent // where claims from recent events go on
	around time.Time    // when to claim around the outbox again; zero: always
	turned time.Time    // when campaigns in turn were last looked at
	idle   time.Time    // since when claims find nothing; zero: the last one has found work
	dead   int64        // dead rows of the outbox
}

// choose returns the way to claim, and the reason. woken: a notification has come while no worker is busy. Such a
// claim reads the events too.
func (p *past) choose(woken, draining bool, now time.Time) (by way, reason string) {
	switch {
	case p.around.IsZero() || draining:
	case p.dead > freeDead && (p.idle.IsZero() || now.Sub(p.idle) < aroundIdle):
		return recent, "there is work, and the outbox has many dead rows"
	case now.Before(p.around):
		return recent, "the last claim around the outbox took long"
	}
	if woken {
		return ahead, "a notification came and nobody works"
	}
	return around, "the outbox has few dead rows, or it is time to look at all of it"
}

// takeTurn has the next claim from recent events look at campaigns in turn, if it is time to.
func (p *past) takeTurn(now time.Time) {
	p.recent.Turn = 0
	if now.Sub(p.turned) >= turnEvery {
		p.recent.Turn, p.turned = turnSize, now
	}
}

// note takes over the answer to a claim, and where it stopped.
func (p *past) note(by way, got lease.Claimed, asked, now time.Time) {
	p.by = by
	if len(got.Leases) > 0 {
		p.idle = time.Time{}
	} else if p.idle.IsZero() {
		p.idle = now
	}
	switch {
	case by == recent:
		p.recent, p.dead = got.Recent, got.Dead
	case got.Dead > freeDead+freeDeadEach*int64(len(got.Leases)):
		p.cursor, p.dead, p.around = got.Cursor, got.Dead, now.Add(aroundShare*now.Sub(asked))
	default:
		p.cursor, p.recent, p.around = got.Cursor, lease.Recent{}, time.Time{}
	}
}
