package feed

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

const (
	// listColumns is eventColumns, with payload and metadata only if $5 is false: then Postgres does not
	// read what it has stored elsewhere.
	listColumns   = eventHead + listDocuments + eventTail
	listDocuments = `CASE WHEN NOT $5 THEN payload END, CASE WHEN NOT $5 THEN metadata END`
)

// List bounds a list of events that is held in memory at once. Events that cannot be read are in
// it, and say so unless it is bare: see [Event.Unreadable].
type List struct {
	Events int   // at most so many
	Bytes  int64 // about so many bytes of payload and metadata, and at least one event
	Bare   bool  // leave out payload and metadata, which are then nil and not read; Bytes does not count
}

// ListCampaign answers events of a campaign from a seq on. more says that a bound has ended the list: go on
// after its last event, and there may be none.
func ListCampaign(
	ctx context.Context, db Querier, campaignID string, fromSeq int64, l List,
) (events []Event, more bool, err error) {
	events, more, err = l.collect(ctx, db, queryListCampaign, campaignID, fromSeq)
	if err != nil {
		return nil, false, fmt.Errorf("list campaign %q from seq %d: %w", campaignID, fromSeq, err)
	}
	return events, more, nil
}

// ListMatches answers the events that a query selects, from a position on and up to the writer floor. more
// is that of [ListCampaign].
func ListMatches(ctx context.Context, db Querier, q Query, from int64, l List) (events []Event, more bool, err error) {
	if err := CheckQuery(q); err != nil {
		return nil, false, err
	}
	events, more, err = l.collect(ctx, db, queryListMatches, string(AppendQuery(nil, q)), from)
	if err != nil {
		return nil, false, fmt.Errorf("list the events of a query from position %d: %w", from, err)
	}
	return events, more, nil
}

func (l List) collect(ctx context.Context, db Querier, query string, of, from any) ([]Event, bool, error) {
	if l.Bare {
		l.Bytes = math.MaxInt64
	}
	events, size, err := collectSome(ctx, db, 0, l.Bytes, query, of, from, l.Events, l.Bytes, l.Bare)
	if l.Bare {
		for i := range events {
			events[i].unreadable = false // not known
		}
	}
	return events, len(events) == l.Events || cutShort(size, l.Bytes), err
}

// cutShort says whether a bound of bytes may have ended a read. A value of jsonb takes up to six times as
// much as its text, and what else an event has is little.
func cutShort(size, limit int64) bool { return size > limit/16 }

// Campaigns lists the ids of up to limit campaigns that begin with prefix ("": of all) and come after
// a campaign ("": from the first), in the order of their bytes.
func Campaigns(ctx context.Context, db Querier, prefix, after string, limit int) ([]string, error) {
	return rows.All(ctx, db, pgx.RowTo[string], "list campaigns", queryCampaigns, prefix, after, limit)
}

// Last returns the last event of a campaign, its head, or [ErrNotFound] if it has none.
func Last(ctx context.Context, db Querier, campaignID string) (Event, error) {
	return one(ctx, db, fmt.Sprintf("the last event of campaign %q", campaignID), queryLast, campaignID)
}
