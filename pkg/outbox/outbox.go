// Package outbox answers for the durable queue of work: how far consumer groups are behind the
// journal, and how a group ends.
//
// tidemark.outbox has one row for each consumer group and campaign of an append, written in the
// transaction that appends the events and deleted in the transaction that applies the last of them.
// Appends and projectors need no call of this package. All functions are safe for concurrent use.
package outbox

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Behind says how far something is behind the journal: a Group as a whole, or one Projection of it,
// with the number of Events and Campaigns, and the Age of the oldest event. Where there is too much
// to count, the figures are Estimated.
type Behind = outbox.Behind

// Lag answers how far each consumer group is behind and, after it, each of its projections. A
// projection is behind its group in campaigns where it failed or is catching up. Events that no
// projection wants count until a worker has passed them.
//
// Up to 10,000 work items of a group are counted, and 10,000 deferred pairs. Where there are more,
// some pages of their tables are read, which stand for the rest.
func Lag(ctx context.Context, db journal.Querier) ([]Behind, error) { return outbox.Lag(ctx, db) }

// Errors of [Unregister].
var (
	// ErrInUse: the group has projections.
	ErrInUse = outbox.ErrInUse
	// ErrNotRegistered: nothing is known of the group.
	ErrNotRegistered = outbox.ErrNotRegistered
)

// Unregister ends a consumer group: its work items, its leases with their checkpoints, and its
// pauses are deleted. A group of the same name begins anew. The failure log keeps by, which must
// not be empty, and the reason. [ErrInUse] says that it has projections: remove those first. Stop
// its workers, or they register it again at their next start.
//
// Unregister must not run inside a transaction. It waits until appends that began while the group
// was known have ended. Interrupted, it goes on when it is called again.
func Unregister(ctx context.Context, db *pgxpool.Pool, group, by, reason string) error {
	return outbox.Unregister(ctx, db, group, by, reason)
}
