package given

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/eventstate"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Journal is a journal in memory. The zero Journal is empty. It checks nothing: there is no catalogue.
type Journal struct {
	events []event.Event
	seqs   map[string]int64
}

// Append adds events to a campaign, and returns them as they are read: with their seq, position, and what was
// left out. Ids are made from the position, times are seconds after the first one of January 2026, UTC.
func (j *Journal) Append(campaignID string, events ...event.Event) []event.Event {
	if j.seqs == nil {
		j.seqs = map[string]int64{}
	}
	first := len(j.events)
	for _, e := range events {
		j.seqs[campaignID]++
		e.CampaignID, e.Seq, e.Position = campaignID, j.seqs[campaignID], int64(len(j.events)+1)
		at := time.Date(2026, time.January, 1, 0, 0, int(e.Position-1), 0, time.UTC)
		e.Version, e.Intent = cmp.Or(e.Version, 1), cmp.Or(e.Intent, event.ProjectionAndReplay)
		if e.RecordedAt = at; e.OccurredAt.IsZero() {
			e.OccurredAt = at
		}
		if e.ID == uuid.Nil {
			e.ID = id(e.Position)
		}
		if e.Payload == nil {
			e.Payload = []byte("{}")
		}
		if e.Metadata == nil {
			e.Metadata = []byte("{}")
		}
		eventstate.Of(&e).Decoded = &eventstate.Decoded{}
		j.events = append(j.events, e)
	}
	return j.Events()[first:]
}

// Events returns all events in the order of their positions.
func (j *Journal) Events() []event.Event { return append([]event.Event(nil), j.events...) }

// id returns a UUID of version 8 with a position.
func id(position int64) (of uuid.UUID) {
	binary.BigEndian.PutUint64(of[8:], uint64(position))
	of[6], of[8] = 0x80, of[8]&0x3f|0x80
	return of
}
