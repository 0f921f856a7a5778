// Package outbox reads how far consumer groups are behind the journal. It is small because appends and
// projectors do the rest; package operator removes a group.
//
// tidemark.outbox has one row for each consumer group and campaign of an append, written in the
// transaction that appends the events and deleted in the transaction that applies the last of them.
// All functions are safe for concurrent use.
//
// Stability: as of version 1, no function changes its meaning, and structs may get fields.
package outbox

import (
	"context"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Behind is the backlog of a consumer group or of one projection of it.
type Behind struct {
	Group      string
	Projection string        // empty: the group as a whole, by its checkpoints
	Events     int64         // appended and not applied
	Campaigns  int64         // with such events
	Age        time.Duration // since the oldest of them was appended, by the database's clock; 0 if there is none
	// too much to count: Events and Campaigns are approximate, and Age is the oldest of the rows read
	Estimated bool
}

// Lag returns the backlog of each consumer group followed by that of its projections. A projection
// is behind its group in campaigns where it failed or is catching up. Events that it does not want do
// not count.
//
// Up to 10,000 work items of a group are counted, and 10,000 pairs that are behind. Beyond that it samples
// some pages of their tables.
func Lag(ctx context.Context, db event.Querier) ([]Behind, error) {
	found, err := outbox.Lag(ctx, db)
	behind := make([]Behind, len(found))
	for i := range found {
		behind[i] = Behind(found[i])
	}
	return behind, err
}
