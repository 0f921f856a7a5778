package publisher

import "time"

// agenda is the pairs that this process holds, and what the loop is to look at when.
type agenda struct {
	*base
	pairs    map[Key]*pair
	ready    []*pair // to be looked at
	due      time.Time
	nextTick time.Time
	stopping bool
	hurry    bool   // a pair is to be given back
	instance string // of the database, as it was last seen
	journals int    // that have taken the place of one another, perhaps
}

// look has the loop look at a pair.
func (a *agenda) look(p *pair) { a.ready = append(a.ready, p) }

// at has the loop look again at t.
func (a *agenda) at(t time.Time) {
	if t.Before(a.due) {
		a.due = t
	}
}

// tickAt has the next look be at t if it would be later.
func (a *agenda) tickAt(t time.Time) {
	if t = t.Add(time.Millisecond); t.Before(a.nextTick) {
		a.nextTick = t
	}
}

// leave gives a pair back once it is not busy.
func (a *agenda) leave(p *pair) {
	p.leaving, a.hurry = true, true
	p.stopDrains()
}

// drop forgets a pair that is not ours any more.
func (a *agenda) drop(p *pair) {
	p.cancel()
	if a.pairs[p.Key] == p {
		delete(a.pairs, p.Key)
		a.metrics.held.Set(float64(len(a.pairs)))
	}
}
