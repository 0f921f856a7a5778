package model_test

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// pause pauses the group, a projection or a campaign.
func (m *machine) pause(r *rapid.T) {
	target := pause.Target{Group: group}
	switch rapid.IntRange(0, 4).Draw(r, "what") {
	case 0:
		m.closed = true
	case 1, 2:
		target.Projection = rapid.SampledFrom(projectionNames()).Draw(r, "projection")
		m.stopped[target.Projection] = true
	default:
		m.pauseCampaign(r)
		return
	}
	m.set(r, target)
}

func (m *machine) pauseCampaign(r *rapid.T) {
	if len(m.events) == 0 {
		return
	}
	target := pause.Target{Group: group, CampaignID: rapid.SampledFrom(m.ids()).Draw(r, "campaign")}
	c := m.campaigns[target.CampaignID]
	c.paused, c.held = true, false
	m.campaigns[target.CampaignID] = c
	m.set(r, target)
}

func (m *machine) set(r *rapid.T, target pause.Target) {
	lasts := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(r, "for")
	m.must(r, m.tx(func(ctx context.Context, tx pgx.Tx) error {
		return pause.Set(ctx, tx, target, "ada", "it is late", lasts)
	}))
	m.timed[target] = lasts > 0
	m.note("paused", target.Projection, target.CampaignID, 0)
}

// paused returns all pauses of the model.
func (m *machine) paused() (all []pause.Target) {
	if m.closed {
		all = append(all, pause.Target{Group: group})
	}
	for _, projection := range projectionNames() {
		if m.stopped[projection] {
			all = append(all, pause.Target{Group: group, Projection: projection})
		}
	}
	for _, id := range m.ids() {
		if m.campaigns[id].paused {
			all = append(all, pause.Target{Group: group, CampaignID: id})
		}
	}
	return all
}

func (m *machine) resume(r *rapid.T) {
	all := m.paused()
	if len(all) == 0 {
		return
	}
	m.resumeOne(r, rapid.SampledFrom(all).Draw(r, "what"))
}

func (m *machine) resumeOne(r *rapid.T, target pause.Target) {
	m.must(r, m.tx(func(ctx context.Context, tx pgx.Tx) error {
		return pause.Resume(ctx, tx, target, "ada", "a new day")
	}))
	m.note("resumed", target.Projection, target.CampaignID, 0)
	m.over(target)
}

// pausesEnd ends the pauses that last an hour.
func (m *machine) pausesEnd(r *rapid.T) {
	for _, sql := range []string{
		`UPDATE tidemark.pauses SET expires_at = clock_timestamp() - interval '1 second' WHERE expires_at < 'infinity'`,
		`UPDATE tidemark.leases SET expires_at = clock_timestamp() - interval '1 second' WHERE owner = 'paused'
			AND expires_at < 'infinity'`,
	} {
		_, err := m.pool.Exec(m.t.Context(), sql)
		m.must(r, err)
	}
	for _, target := range m.paused() {
		if m.timed[target] {
			m.over(target)
		}
	}
}

// pauseItself makes the ledger fail at an event on which it pauses itself, when nothing else is
// left to apply. Then it repairs the fault. Other projections go on.
func (m *machine) pauseItself(r *rapid.T) {
	m.drain(r)
	id := rapid.SampledFrom(campaigns()).Draw(r, "campaign")
	key := failed.Key{Projection: ledger, CampaignID: id}
	if _, behind := m.rows[key]; behind || m.stopped[ledger] || !m.reachable(id) || m.gap(id) {
		return
	}
	batch := journal.Batch{CampaignID: id, Events: []event.Event{{ID: uuid.New(), Type: vital}}}
	for range rapid.IntRange(0, 8).Draw(r, "events behind it") {
		batch.Events = append(batch.Events, event.Event{ID: uuid.New(), Type: moved})
	}
	at, kind := spot{key, m.head(id) + 1}, rapid.SampledFrom([]fault{transient, permanent, panics}).Draw(r, "fault")
	m.faults.mu.Lock()
	m.spots[at] = kind
	m.faults.mu.Unlock()
	m.enter(r, batch)
	m.drain(r)
	m.stopped[ledger] = true
	m.timed[pause.Target{Group: group, Projection: ledger}] = false
	m.note("paused", ledger, "", 0)
	m.check(r)
	m.faults.mu.Lock()
	delete(m.spots, at)
	m.faults.mu.Unlock()
}

// over ends a pause in the model.
func (m *machine) over(target pause.Target) {
	switch {
	case target.Projection != "":
		delete(m.stopped, target.Projection)
	case target.CampaignID != "":
		c := m.campaigns[target.CampaignID]
		c.paused = false
		m.campaigns[target.CampaignID] = c
	default:
		m.closed = false
	}
}
