package feed

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

const (
	// listColumns is eventColumns, with payload and metadata only if $5 is false. If true, Postgres
	// does not read values it stores out of line.
	listColumns   = eventHead + listDocuments + eventTail
	listDocuments = `CASE WHEN NOT $5 THEN payload END, CASE WHEN NOT $5 OR event_version = 0 THEN metadata END`
)

// List limits a list of events held in memory. It includes events that cannot be read; unless Bare
// is set, [event.Event.Unreadable] returns their error.
type List struct {
	Events int           // at most this many
	Bytes  int64         // about this many bytes of payload and metadata, and at least one event
	Time   time.Duration // of [ListMatches]: end after about this long, but after at least one window; 0: no limit
	Bare   bool          // leave payload and metadata nil and do not read them; Bytes does not count
}

// ListCampaign returns events of a campaign from a seq on. more means that a limit ended the list:
// continue after its last event. There may be no further events.
func ListCampaign(
	ctx context.Context, db event.Querier, campaignID string, fromSeq int64, l List,
) (events []event.Event, more bool, err error) {
	defer rows.Explain(&err, "list campaign %q from seq %d", campaignID, fromSeq)
	return l.collect(ctx, db, fromSeq-1, queryListCampaign, campaignID, fromSeq)
}

// collect reads a campaign after a seq, or events of several campaigns (-1).
func (l List) collect(
	ctx context.Context, db event.Querier, after int64, query string, of, from any, until ...any,
) ([]event.Event, bool, error) {
	if l.Bare {
		l.Bytes = math.MaxInt64
	}
	s := span{}
	if after >= 0 {
		s = span{after: after, events: l.Events, bytes: l.Bytes}
	}
	args := append([]any{of, from, l.Events, l.Bytes, l.Bare}, until...)
	events, size, err := collectSome(ctx, db, 0, l.Bytes, s, query, args...)
	if l.Bare {
		for i := range events {
			state(&events[i]).Unreadable = false // unknown
			events[i].Payload, events[i].Metadata = nil, nil
		}
	}
	return events, len(events) == l.Events || cutShort(size, l.Bytes), err
}

// cutShort reports whether a byte limit may have ended a read. A jsonb value takes up to six times
// the bytes of its text; the rest of an event is small.
func cutShort(size, limit int64) bool { return size > limit/16 }

// Campaigns lists up to limit campaign ids with a prefix, after an id ("": from the first), in byte
// order.
func Campaigns(ctx context.Context, db event.Querier, prefix, after string, limit int) ([]string, error) {
	return rows.All(ctx, db, pgx.RowTo[string], "list campaigns", queryCampaigns, prefix, after, limit)
}

// Last returns the last event of a campaign, or [event.ErrNotFound] if it has none.
func Last(ctx context.Context, db event.Querier, campaignID string) (event.Event, error) {
	return one(ctx, db, fmt.Sprintf("the last event of campaign %q", campaignID), queryLast, campaignID)
}

// Head is [Last] that returns the stub of an archived campaign, without its payload.
func Head(ctx context.Context, db event.Querier, campaignID string) (e event.Event, err error) {
	defer rows.Explain(&err, "the head of campaign %q", campaignID)
	rows, err := db.Query(ctx, queryLast, campaignID)
	if err != nil {
		return e, err
	}
	n, _, err := eachEvent(rows, math.MaxInt64, campaignFirst(func(found *event.Event, _ int) { e = *found }))
	if err == nil && n == 0 {
		err = event.ErrNotFound
	}
	return e, err
}

// Progress returns [Floor] and the last assigned position. While they differ, appends are in flight.
func Progress(ctx context.Context, db event.Querier) (floor, last int64, instance string, err error) {
	err = rows.Each(ctx, db, []any{&floor, &last, &instance}, func() {}, "read the writer floor", queryProgress)
	return floor, last, instance, err
}

// Erased returns a mark that has grown when events have been erased.
func Erased(ctx context.Context, db event.Querier) (mark int64, err error) {
	return rows.One(ctx, db, pgx.RowTo[int64], "look for erasures", QueryErased)
}

// ReadRange reads up to limit events of a campaign, from a seq and up to a position.
func ReadRange(
	ctx context.Context, db event.Querier, campaignID string, fromSeq, untilPosition int64, limit int,
) (_ []event.Event, err error) {
	defer rows.Explain(&err, "read campaign %q from seq %d", campaignID, fromSeq)
	s := span{after: fromSeq - 1, untilPosition: untilPosition, events: limit, bytes: math.MaxInt64}
	events, _, err := collectSome(ctx, db, 0, math.MaxInt64, s, queryCampaignRange, campaignID, fromSeq, untilPosition,
		limit)
	return events, err
}

// PositionAt returns the position before the first event recorded at t or later, or the writer floor.
// Later events are older than t by at most a few milliseconds, because appends overtake each other.
func PositionAt(ctx context.Context, db event.Querier, t time.Time) (int64, error) {
	floor, err := Floor(ctx, db)
	if err != nil {
		return 0, err
	}
	position, err := rows.One(ctx, db, pgx.RowTo[int64], fmt.Sprintf("find the position of %s", t), queryPositionAt,
		floor, t)
	return position, archivedBy(err)
}

// OpenAppend is a transaction that has appended and is still open. The zero value means none.
type OpenAppend struct {
	Age    time.Duration // of the transaction
	PID    int           // its backend; 0: none, not visible, or prepared
	Holder string        // a process and its application, or the name of a prepared transaction
	Remedy string        // the statement that ends it
}

// OldestAppend returns the oldest open append. Readers of the whole journal wait for it.
func OldestAppend(ctx context.Context, db event.Querier) (OpenAppend, error) {
	return rows.One(ctx, db, pgx.RowToStructByPos[OpenAppend], "look for open appends", queryOldestAppend)
}
