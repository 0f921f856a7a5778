package model_test

import (
	"slices"

	"github.com/tidemark-go/tidemark/internal/store/failed"
)

// outcome is the predicted state of a projection in a campaign.
type outcome struct {
	row     *row // nil: in step
	trail   []int64
	log     []string
	omitted []int64
	again   bool
}

// unchanged returns the outcome if nothing happens.
func (w *world) unchanged(key failed.Key) outcome {
	o := outcome{trail: w.trails[key], omitted: w.omitted[key], again: w.again[key]}
	if r, behind := w.rows[key]; behind {
		o.row = &r
	}
	return o
}

// bring returns the outcome once workers have done all they can in the campaign up to an event, the
// group's new checkpoint.
func (w *world) bring(key failed.Key, upTo int64) outcome {
	checkpoint := w.campaigns[key.CampaignID].checkpoint
	r, behind := w.rows[key]
	switch {
	case behind && (w.stopped[key.Projection] || r.when != due):
		return w.unchanged(key)
	case !behind && w.stopped[key.Projection] && upTo > checkpoint:
		o := w.unchanged(key)
		o.row = &row{next: checkpoint + 1, status: failed.CatchingUp, when: due}
		return o
	case !behind:
		r = row{next: checkpoint + 1}
	}
	return w.apply(key, r, upTo)
}

// apply applies events from r.next up to upTo, or to the first that fails.
func (w *world) apply(key failed.Key, r row, upTo int64) outcome {
	o := outcome{trail: slices.Clone(w.trails[key]), omitted: slices.Clone(w.omitted[key]), again: w.again[key]}
	if r.reset {
		o.trail, o.omitted, o.again = nil, nil, false
	}
	recovered := func() {
		if r.failed {
			o.log = append(o.log, line("recovered", key.Projection, key.CampaignID, r.next, 0))
		}
	}
	for seq := r.next; seq <= upTo; seq++ {
		if !w.wanted(key, seq) {
			continue
		}
		kind, faulty := w.spots[spot{key, seq}]
		switch {
		case !faulty:
			o.trail = append(o.trail, seq)
			o.omitted = slices.DeleteFunc(o.omitted, func(s int64) bool { return s == seq })
			continue
		case w.events[key.CampaignID][seq-1].of == optional:
			o.omitted = append(o.omitted, seq)
			o.log = append(o.log, line("skipped", key.Projection, key.CampaignID, seq, 0))
			continue
		case key.Projection == ledger && w.events[key.CampaignID][seq-1].of == vital:
			kind = transient // any fault counts as transient here
		}
		if seq > r.next {
			recovered()
			r = row{}
		}
		o.fail(key, r, seq, kind)
		return o
	}
	recovered()
	return o
}

// fail adds a row of failed at the event.
func (o *outcome) fail(key failed.Key, r row, seq int64, kind fault) {
	now := row{next: seq, status: failed.Failed, attempts: r.attempts + 1, when: later, failed: true}
	act := "failed"
	if kind.dies() || now.attempts >= attempts {
		act, now.status, now.when = "dead", failed.Dead, never
	}
	o.row = &now
	o.log = append(o.log, line(act, key.Projection, key.CampaignID, seq, now.attempts))
}

// halfway returns a possible outcome of a row after some of the transactions that bring it forward.
func (w *world) halfway(key failed.Key, next int64) (outcome, bool) {
	r, behind := w.rows[key]
	if !behind || r.when != due || w.stopped[key.Projection] || next <= r.next {
		return outcome{}, false
	}
	o := w.apply(key, r, next-1)
	if o.row != nil {
		return outcome{}, false
	}
	o.row = &row{next: next, status: failed.CatchingUp, when: due}
	return o, true
}

// goal returns the group's checkpoint in a campaign once workers have done all they can.
func (w *world) goal(id string) int64 {
	c := w.campaigns[id]
	if !w.reachable(id) || len(c.outbox) == 0 {
		return c.checkpoint
	}
	return w.head(id)
}

// settle changes the model to the state in which workers have done all they can.
func (w *world) settle() {
	for _, id := range w.ids() {
		if !w.reachable(id) {
			continue
		}
		goal := w.goal(id)
		for _, projection := range projectionNames() {
			key := failed.Key{Projection: projection, CampaignID: id}
			w.put(key, w.bring(key, goal))
		}
		c := w.campaigns[id]
		c.checkpoint, c.outbox = goal, nil
		w.campaigns[id] = c
	}
}
