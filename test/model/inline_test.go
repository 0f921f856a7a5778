package model_test

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// inline appends to a campaign and applies in the same transaction, even while a worker holds the
// campaign. A projection that fails on any event up to the head fails the append.
func (m *machine) inline(r *rapid.T) {
	id := rapid.SampledFrom(campaigns()).Draw(r, "campaign")
	e := event.Event{ID: uuid.New(), Type: rapid.SampledFrom([]string{moved, optional}).Draw(r, "event")}
	before := m.campaigns[id]
	m.events[id] = append(m.events[id], modelled{id: e.ID, of: e.Type})
	left, fails := m.closed || before.paused, false
	for seq := before.checkpoint + 1; seq <= m.head(id) && !left; seq++ {
		for _, projection := range projectionNames() {
			key := failed.Key{Projection: projection, CampaignID: id}
			_, behind := m.rows[key]
			_, faulty := m.spots[spot{key, seq}]
			fails = fails || faulty && !behind && !m.stopped[projection] && m.wanted(key, seq)
		}
	}
	err := m.tx(func(ctx context.Context, tx pgx.Tx) error {
		appended, err := journal.Journal{}.Append(ctx, tx, id, journal.Any, e)
		if err != nil {
			return err
		}
		return m.steady.ApplyInline(ctx, tx, appended...)
	})
	var apply *projection.ApplyError
	if fails != errors.As(err, &apply) || !fails && err != nil {
		r.Fatalf("applied inline to campaign %s: %v, should fail: %t", id, err, fails)
	}
	switch {
	case fails:
		if m.events[id] = m.events[id][:m.head(id)-1]; len(m.events[id]) == 0 {
			delete(m.events, id)
		}
		return
	case left:
		before.outbox = append(before.outbox[:len(before.outbox):len(before.outbox)], m.head(id))
	default:
		for _, projection := range projectionNames() {
			if key := (failed.Key{Projection: projection, CampaignID: id}); m.rows[key].next == 0 {
				m.put(key, m.bring(key, m.head(id)))
			}
		}
		before = campaign{checkpoint: m.head(id)}
	}
	m.campaigns[id] = before
}
