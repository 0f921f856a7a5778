package model_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/pause"
)

const group = "default"

// event is an event in the model.
type modelled struct {
	id    uuid.UUID
	of    string
	audit bool
}

// campaign is the group's state in one campaign.
type campaign struct {
	checkpoint int64
	outbox     []int64
	held       bool // by a worker, possibly a dead one
	paused     bool
}

// When a row is retried.
const (
	due   = "due"
	later = "later"
	never = "never"
)

// row is a row of failed.
type row struct {
	next     int64
	status   failed.Status
	attempts int
	when     string
	reset    bool
	failed   bool // at next
}

// world is a state of the database, modelled or read.
type world struct {
	campaigns map[string]campaign
	rows      map[failed.Key]row
	trails    map[failed.Key][]int64
	log       map[string]int // lines of the failure log, with their number

	// Only the model has these. The database is checked for them separately.
	events   map[string][]modelled
	stopped  map[string]bool        // projections that are paused
	closed   bool                   // the group is paused
	timed    map[pause.Target]bool  // pauses that end by themselves
	omitted  map[failed.Key][]int64 // events skipped since the campaign last started over
	resolved map[failed.Key][]int64
	again    map[failed.Key]bool // replayed without deleting the old rows
	spots    map[spot]fault
}

func newWorld() *world {
	return &world{
		campaigns: map[string]campaign{}, rows: map[failed.Key]row{}, trails: map[failed.Key][]int64{},
		log: map[string]int{}, events: map[string][]modelled{},
		stopped: map[string]bool{}, timed: map[pause.Target]bool{}, omitted: map[failed.Key][]int64{},
		resolved: map[failed.Key][]int64{}, again: map[failed.Key]bool{}, spots: map[spot]fault{},
	}
}

// adopt takes over the state that an unfinished worker has left.
func (w *world) adopt(found *world, outcomes map[failed.Key]outcome) {
	for id, c := range found.campaigns {
		c.paused = w.campaigns[id].paused
		w.campaigns[id] = c
	}
	for key, o := range outcomes {
		w.put(key, o)
	}
}

func (w *world) put(key failed.Key, o outcome) {
	w.trails[key], w.omitted[key], w.again[key] = o.trail, o.omitted, o.again
	delete(w.rows, key)
	if o.row != nil {
		w.rows[key] = *o.row
	}
	for _, line := range o.log {
		w.log[line]++
	}
}

// note adds one line to the failure log.
func (w *world) note(act, projection, campaignID string, seq int64) {
	w.log[line(act, projection, campaignID, seq, 0)]++
}

func line(act, projection, campaignID string, seq int64, attempt int) string {
	text := fmt.Sprintf("%s %s %s %d", act, projection, campaignID, seq)
	if attempt > 0 {
		text += fmt.Sprintf(" attempt %d", attempt)
	}
	return text
}

func (w *world) head(id string) int64 { return int64(len(w.events[id])) }

// wanted reports whether the projection has to apply the event.
func (w *world) wanted(key failed.Key, seq int64) bool {
	e := w.events[key.CampaignID][seq-1]
	return !e.audit && (e.of == moved || key.Projection != pages) && !slices.Contains(w.resolved[key], seq)
}

// reachable reports whether workers can claim the campaign.
func (w *world) reachable(id string) bool {
	c := w.campaigns[id]
	return !w.closed && !c.held && !c.paused
}

// gap reports whether the campaign has events to project and no work item.
func (w *world) gap(id string) bool {
	c := w.campaigns[id]
	if len(c.outbox) > 0 {
		return false
	}
	for seq := c.checkpoint + 1; seq <= w.head(id); seq++ {
		if !w.events[id][seq-1].audit {
			return true
		}
	}
	return false
}

// ids returns the campaigns that have events.
func (w *world) ids() []string { return slices.Sorted(maps.Keys(w.events)) }

func (w *world) keys() []failed.Key {
	var keys []failed.Key
	for _, id := range w.ids() {
		for _, projection := range projectionNames() {
			keys = append(keys, failed.Key{Projection: projection, CampaignID: id})
		}
	}
	return keys
}

// describe returns the state as text, by subject.
func (w *world) describe() map[string]string {
	all := map[string]string{}
	for id, c := range w.campaigns {
		if c.checkpoint > 0 || len(c.outbox) > 0 || c.held || c.paused {
			all["campaign "+id] = fmt.Sprintf("%+v", c)
		}
	}
	for key, r := range w.rows {
		all["row of "+key.String()] = fmt.Sprintf("%+v", r)
	}
	for key, trail := range w.trails {
		if len(trail) > 0 {
			all["trail of "+key.String()] = fmt.Sprint(trail)
		}
	}
	for text, n := range w.log {
		all["log: "+text] = fmt.Sprintf("%d times", n)
	}
	return all
}
