// Package outbox reads how far consumer groups are behind the journal, and removes a group.
//
// tidemark.outbox has one row for each consumer group and campaign of an append, written in the
// transaction that appends the events and deleted in the transaction that applies the last of them.
// Appends and projectors need no call of this package. All functions are safe for concurrent use.
//
// Stability: as of version 1, no function changes its meaning, and structs may get fields.
package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

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
// Up to 10,000 work items of a group are counted, and 10,000 deferred pairs. Beyond that it samples
// some pages of their tables.
func Lag(ctx context.Context, db event.Querier) ([]Behind, error) {
	found, err := outbox.Lag(ctx, db)
	behind := make([]Behind, len(found))
	for i := range found {
		behind[i] = Behind(found[i])
	}
	return behind, err
}

// Errors of [Unregister].
var (
	// ErrInUse: the group has projections.
	ErrInUse = outbox.ErrInUse
	// ErrNotRegistered: the group is unknown.
	ErrNotRegistered = outbox.ErrNotRegistered
)

// Unregister removes a consumer group: it deletes its work items, its leases with their
// checkpoints, and its pauses. A new group of the same name starts over. The failure log records
// by, which must not be empty, and the reason. [ErrInUse] means that the group has projections:
// remove those first. Stop its workers, or they register it again at their next start.
//
// Unregister must not run inside a transaction. It waits for appends that began while the group was
// registered. If interrupted, call it again to continue.
func Unregister(ctx context.Context, db *pgxpool.Pool, group, by, reason string) error {
	return outbox.Unregister(ctx, db, group, by, reason)
}
