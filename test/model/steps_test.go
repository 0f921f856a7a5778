package model_test

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

func campaigns() []string { return []string{"a", "b", "c", "d"} }

// append appends events to one or several campaigns in one transaction.
func (m *machine) append(r *rapid.T) {
	var batches []journal.Batch
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(campaigns()), 1, 3, rapid.ID).Draw(r, "campaigns") {
		batch := journal.Batch{CampaignID: id}
		for _, kind := range rapid.SliceOfN(rapid.SampledFrom([]string{moved, moved, moved, optional, "audit"}), 1,
			6).Draw(r, "events") {
			e := event.Event{ID: uuid.New(), Type: kind}
			if kind == "audit" {
				e.Type, e.Intent = moved, event.AuditOnly
			}
			batch.Events = append(batch.Events, e)
		}
		batches = append(batches, batch)
	}
	m.enter(r, batches...)
}

func (m *machine) enter(r *rapid.T, batches ...journal.Batch) {
	m.must(r, m.tx(func(ctx context.Context, tx pgx.Tx) error {
		if len(batches) == 1 {
			_, err := journal.Journal{}.Append(ctx, tx, batches[0].CampaignID, journal.Exactly(m.head(batches[0].CampaignID)),
				batches[0].Events...)
			return err
		}
		_, err := journal.Journal{}.AppendAll(ctx, tx, batches...)
		return err
	}))
	for _, b := range batches {
		c := m.campaigns[b.CampaignID]
		c.outbox = slices.Clone(c.outbox)
		for _, e := range b.Events {
			m.events[b.CampaignID] = append(m.events[b.CampaignID],
				modelled{id: e.ID, of: e.Type, audit: e.Intent == event.AuditOnly})
		}
		c.outbox = append(c.outbox, m.head(b.CampaignID))
		m.campaigns[b.CampaignID] = c
	}
}

// breakSome makes a projection fail at an event, which may not exist yet.
func (m *machine) breakSome(r *rapid.T) {
	id := rapid.SampledFrom(campaigns()).Draw(r, "campaign")
	projection := rapid.SampledFrom(projectionNames()).Draw(r, "projection")
	seq := rapid.Int64Range(max(1, m.head(id)-4), m.head(id)+3).Draw(r, "seq")
	kind := rapid.SampledFrom([]fault{transient, permanent, panics}).Draw(r, "fault")
	if kind == panics && projection == sums {
		kind = permanent
	}
	if projection == ledger && seq <= m.head(id) && m.events[id][seq-1].of == vital {
		return // the model does not predict how far the others get before it pauses
	}
	m.faults.mu.Lock()
	m.spots[spot{failed.Key{Projection: projection, CampaignID: id}, seq}] = kind
	m.faults.mu.Unlock()
	m.must(r, m.faults.set(m.t.Context(), m.pool))
}

// mend repairs one fault, or all faults of a projection.
func (m *machine) mend(r *rapid.T) {
	var all []spot
	for s := range m.spots {
		all = append(all, s)
	}
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b spot) int {
		return cmp.Or(cmp.Compare(a.Projection, b.Projection), cmp.Compare(a.CampaignID, b.CampaignID),
			cmp.Compare(a.seq, b.seq))
	})
	one := rapid.SampledFrom(all).Draw(r, "fault")
	alone := rapid.Bool().Draw(r, "alone")
	m.faults.mu.Lock()
	for _, s := range all {
		if s == one || !alone && s.Projection == one.Projection {
			delete(m.spots, s)
		}
	}
	m.faults.mu.Unlock()
	m.must(r, m.faults.set(m.t.Context(), m.pool))
}

// timePasses makes retries due.
func (m *machine) timePasses(r *rapid.T) {
	_, err := m.pool.Exec(m.t.Context(), `UPDATE tidemark.failed SET next_attempt_at = now()
		WHERE next_attempt_at < 'infinity'`)
	m.must(r, err)
	for key, pair := range m.rows {
		if pair.when == later {
			pair.when = due
			m.rows[key] = pair
		}
	}
}

// expire expires the leases of dead and of slow workers, except those that their holder is writing.
func (m *machine) expire(r *rapid.T) {
	_, err := m.pool.Exec(m.t.Context(), `UPDATE tidemark.leases SET expires_at = clock_timestamp() - interval '1 second'
		WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM tidemark.leases WHERE owner <> 'paused' AND expires_at > clock_timestamp() FOR UPDATE SKIP LOCKED))`)
	m.must(r, err)
	for id := range m.campaigns {
		m.release(id)
	}
}

func (m *machine) release(id string) {
	c := m.campaigns[id]
	c.held = false
	m.campaigns[id] = c
}

// loseWork deletes a campaign's work items by hand.
func (m *machine) loseWork(r *rapid.T) {
	m.lose(r, rapid.SampledFrom(campaigns()).Draw(r, "campaign"))
}

func (m *machine) lose(r *rapid.T, id string) {
	_, err := m.pool.Exec(m.t.Context(), `DELETE FROM tidemark.outbox WHERE campaign_id = $1`, id)
	m.must(r, err)
	c := m.campaigns[id]
	c.outbox = nil
	m.campaigns[id] = c
}

// repairGaps files the lost work, then finds nothing more to file.
func (m *machine) repairGaps(r *rapid.T) {
	repair := outbox.Repair{Group: group, By: "ada", Chunk: 2}
	_, err := repair.Run(m.t.Context(), m.pool)
	m.must(r, err)
	m.repaired()
	again, err := repair.Run(m.t.Context(), m.pool)
	m.must(r, err)
	if again.Gaps > 0 {
		r.Fatalf("looked for gaps again, and found %d", again.Gaps)
	}
}

// repaired applies a repair to the model.
func (m *machine) repaired() {
	for _, id := range m.ids() {
		if !m.gap(id) {
			continue
		}
		c := m.campaigns[id]
		c.outbox = []int64{m.head(id)}
		m.campaigns[id] = c
		m.note("repaired", "", id, c.checkpoint+1)
	}
}

// recover makes a projection fail on the next event of a campaign, and recover after the repair: to
// the head, to a later event that fails, or in several transactions.
func (m *machine) recover(r *rapid.T) {
	id := rapid.SampledFrom(campaigns()).Draw(r, "campaign")
	at := spot{
		failed.Key{Projection: rapid.SampledFrom(projectionNames()).Draw(r, "projection"), CampaignID: id},
		m.head(id) + 1,
	}
	batch := journal.Batch{CampaignID: id}
	for range rapid.IntRange(1, 9).Draw(r, "events") {
		batch.Events = append(batch.Events, event.Event{ID: uuid.New(), Type: moved})
	}
	twice := rapid.Bool().Draw(r, "once more")
	m.faults.mu.Lock()
	m.spots[at] = transient
	if twice {
		m.spots[spot{at.Key, at.seq + 1}] = transient
	}
	m.faults.mu.Unlock()
	m.must(r, m.faults.set(m.t.Context(), m.pool))
	m.enter(r, batch)
	m.drain(r)
	m.check(r)
	m.faults.mu.Lock()
	delete(m.spots, at)
	m.faults.mu.Unlock()
	m.must(r, m.faults.set(m.t.Context(), m.pool))
	m.requeueAll(r, failed.Filter{Group: group})
	m.drain(r)
}

// repairTwice makes two operators find the same gap, and one of them act late.
func (m *machine) repairTwice(r *rapid.T) {
	m.append(r)
	for _, id := range campaigns() {
		m.lose(r, id)
	}
	gaps, _, err := outbox.Gaps(m.t.Context(), m.pool, group, "", 0)
	m.must(r, err)
	file := func() {
		for _, gap := range gaps {
			m.must(r, m.tx(func(ctx context.Context, tx pgx.Tx) error { return outbox.RepairGap(ctx, tx, gap, "ada", "") }))
		}
	}
	m.checkGaps(r)
	file()
	m.repaired()
	m.check(r)
	file()
	m.check(r)
	m.drain(r)
	file()
}
