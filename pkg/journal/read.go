package journal

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// Querier reads from the database: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type Querier = feed.Querier

// Errors of reads.
var (
	// ErrNotFound is returned by [Get], [Find] and [Last].
	ErrNotFound = feed.ErrNotFound
	// ErrInvalidQuery: no event can match a part of the query. The text names the part and the reason.
	ErrInvalidQuery = feed.ErrInvalidQuery
	// ErrInvalidCursor is returned by [ParseCursor].
	ErrInvalidCursor = feed.ErrInvalidCursor
	// ErrReset matches every [*ResetError].
	ErrReset = feed.ErrReset
)

// UnreadableError names an event by Campaign, Seq and Position whose payload or metadata Postgres
// cannot return: a number longer than a gigabyte when printed, or a damaged page. All other events
// can be read. Append refuses such numbers, so the event was written past it.
//
// [ReadAll] and [ReadCampaign] end with it, after all earlier events. To continue, read after its
// Position or Seq.
type UnreadableError = feed.UnreadableError

// ReadCampaign streams a campaign's events after a seq (0: from the first), in order, page by page.
// It ends at the last event there is when it gets there. An error is its last value; an
// [*UnreadableError] comes with its event.
func ReadCampaign(ctx context.Context, db Querier, campaignID string, afterSeq int64) iter.Seq2[Event, error] {
	return feed.ReadCampaign(ctx, db, campaignID, afterSeq)
}

// ReadAll streams the journal after a position (0: from the first event), in order of position, up
// to the writer floor at the start of the read. No event below the floor can appear later. It must
// not run inside a REPEATABLE READ or SERIALIZABLE transaction. It ends as [ReadCampaign] does, and with
// a [*ResetError] if the position is beyond the end of the journal.
func ReadAll(ctx context.Context, db Querier, afterPosition int64) iter.Seq2[Event, error] {
	return feed.ReadAll(ctx, db, Cursor{Position: afterPosition})
}

// ReadAfter is [ReadAll] after a cursor, for a reader that keeps its place outside the database: a
// failover, a restore or a crash may give the same positions to other events. It ends with a
// [*ResetError], which names the place to go on from, if the journal may have other events up to the cursor.
func ReadAfter(ctx context.Context, db Querier, after Cursor) iter.Seq2[Event, error] {
	return feed.ReadAll(ctx, db, after)
}

// History returns the present history of the journal, for cursors of what is read after this call. In a
// transaction it is "" if neither a worker nor a read outside of transactions has begun it yet.
func History(ctx context.Context, db Querier) (string, error) {
	s, err := feed.Resume(ctx, db, Cursor{})
	return s.History, err
}

// Cursor is a place in the journal: a position, with the history of the journal in which it was read.
type Cursor = feed.Cursor

// ParseCursor parses the text of a [Cursor], or returns [ErrInvalidCursor]. A position alone is a cursor of
// the present history.
func ParseCursor(text string) (Cursor, error) { return feed.ParseCursor(text) }

// ResetError is returned for a cursor up to which the journal may have other events than its reader has
// seen: it is of an older history, beyond what is known to be the same, or beyond the end. Go is the cursor
// from which the reader goes on: it gets events again, or others in their place. It matches [ErrReset].
type ResetError = feed.ResetError

// Read returns the first limit events that a query selects, from a position (inclusive; 0: from the
// first), in order of position and up to the writer floor. It may miss an event just appended while
// an append with a lower position is in flight; [Decide] includes it. It must not run inside a
// REPEATABLE READ or SERIALIZABLE transaction. However rare the events are, each of its statements is
// short; reading from far back has many.
func Read(ctx context.Context, db Querier, q Query, from int64, limit int) ([]Event, error) {
	return feed.Read(ctx, db, q, from, limit)
}

// PositionAt returns the position before the first event recorded at t or later, or the writer floor.
// Later events are older than t by at most a few milliseconds, because appends overtake each other.
func PositionAt(ctx context.Context, db Querier, t time.Time) (int64, error) {
	return feed.PositionAt(ctx, db, t)
}

// Get returns the event with a seq of a campaign, or [ErrNotFound].
func Get(ctx context.Context, db Querier, campaignID string, seq int64) (Event, error) {
	return feed.Get(ctx, db, campaignID, seq)
}

// Find returns the event with an id of a campaign, or [ErrNotFound].
func Find(ctx context.Context, db Querier, campaignID string, id uuid.UUID) (Event, error) {
	return feed.Find(ctx, db, campaignID, id)
}

// Last returns the last event of a campaign, or [ErrNotFound] if it has none.
func Last(ctx context.Context, db Querier, campaignID string) (Event, error) {
	return feed.Last(ctx, db, campaignID)
}

// Archive reads the events of archived campaigns, as a Reader of package archive does.
type Archive = feed.Archive

// Stub says where archived events are.
type Stub = feed.Stub

// ArchivedError is returned by reads that meet an archived campaign without an [Archive], or cannot read its object.
type ArchivedError = feed.ArchivedError
