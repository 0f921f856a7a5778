package journal

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// ReadCampaign streams a campaign's events after a seq (0: from the first), in order, page by page.
// It ends at the last event there is when it gets there. An error is its last value; an
// [*event.UnreadableError] comes with its event.
func ReadCampaign(
	ctx context.Context, db event.Querier, campaignID string, afterSeq int64,
) iter.Seq2[event.Event, error] {
	return feed.ReadCampaign(ctx, db, campaignID, afterSeq)
}

// ReadAll streams the journal after a position (0: from the first event), in order of position, up
// to the writer floor at the start of the read. No event below the floor can appear later. It must
// not run inside a REPEATABLE READ or SERIALIZABLE transaction. It ends as [ReadCampaign] does, and with
// a [*event.ResetError] if the position is beyond the end of the journal.
func ReadAll(ctx context.Context, db event.Querier, afterPosition int64) iter.Seq2[event.Event, error] {
	return feed.ReadAll(ctx, db, event.Cursor{Position: afterPosition})
}

// ReadAfter is [ReadAll] after a cursor, for a reader that keeps its place outside the database: a
// failover, a restore or a crash may give the same positions to other events. It ends with a
// [*event.ResetError], which names the place to go on from, if the journal may have other events up to the cursor.
func ReadAfter(ctx context.Context, db event.Querier, after event.Cursor) iter.Seq2[event.Event, error] {
	return feed.ReadAll(ctx, db, after)
}

// History returns the present history of the journal, for cursors of what is read after this call. In a
// transaction it is "" if neither a worker nor a read outside of transactions has begun it yet.
func History(ctx context.Context, db event.Querier) (string, error) {
	s, err := feed.Resume(ctx, db, event.Cursor{})
	return s.History, err
}

// Read returns the first limit events that a query selects, from a position (inclusive; 0: from the
// first), in order of position and up to the writer floor. It may miss an event just appended while
// an append with a lower position is in flight; [Decide] includes it. It must not run inside a
// REPEATABLE READ or SERIALIZABLE transaction. However rare the events are, each of its statements is
// short; reading from far back has many.
func Read(ctx context.Context, db event.Querier, q event.Query, from int64, limit int) ([]event.Event, error) {
	return feed.Read(ctx, db, q, from, limit)
}

// PositionAt returns the position before the first event recorded at t or later, or the writer floor.
// Later events are older than t by at most a few milliseconds, because appends overtake each other.
func PositionAt(ctx context.Context, db event.Querier, t time.Time) (int64, error) {
	return feed.PositionAt(ctx, db, t)
}

// Get returns the event with a seq of a campaign, or [event.ErrNotFound].
func Get(ctx context.Context, db event.Querier, campaignID string, seq int64) (event.Event, error) {
	return feed.Get(ctx, db, campaignID, seq)
}

// Find returns the event with an id of a campaign, or [event.ErrNotFound].
func Find(ctx context.Context, db event.Querier, campaignID string, id uuid.UUID) (event.Event, error) {
	return feed.Find(ctx, db, campaignID, id)
}

// Last returns the last event of a campaign, or [event.ErrNotFound] if it has none.
func Last(ctx context.Context, db event.Querier, campaignID string) (event.Event, error) {
	return feed.Last(ctx, db, campaignID)
}
