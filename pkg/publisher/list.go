package publisher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Publication is how it stands with a pair.
type Publication struct {
	Key
	Status   string // "ACTIVE", "PAUSED" or "FAILED"; a pause that is over by now is none
	Position int64  // up to which all is published or parked; written every few seconds while nothing is the topic's

	// Behind is how many events of the journal come after Position, before the topic's filter. It is counted up to CountedBehind; beyond that it is the
	// distance in positions, which is a little more where transactions were rolled back.
	Behind int64
	Lag    time.Duration // since the first of them was recorded; 0: there is none

	Errors        int // failures in a row
	LastError     string
	LastErrorAt   *time.Time
	NextAttemptAt *time.Time // nil: nothing is waited for
	Parked        int64      // events that wait for an operator; this and the next are counted up to CountedBehind together
	Retrying      int64      // events that are tried again, and campaigns that are brought back

	Reason      string // why it is paused or has failed
	Actor       string // who paused it
	PausedUntil *time.Time

	Published       int64 // events, since the pair was made
	LastPublishedAt *time.Time
	Holder          string // host and process of the relay that holds it; empty: none does
	Generation      int64
	CreatedAt       time.Time
}

// Estimated says that Behind is a distance in positions.
func (p Publication) Estimated() bool { return p.Behind > CountedBehind }

// CountedBehind is up to how many events are counted behind a pair's position.
const CountedBehind = 10_000

// List lists the pairs of a topic, a publisher, or both; empty names stand for all. They come in the order of their keys.
func List(ctx context.Context, db journal.Querier, of Key) ([]Publication, error) {
	rows, err := db.Query(ctx, queryList, of.Topic, of.Publisher, CountedBehind)
	if err != nil {
		return nil, fmt.Errorf("list publications: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Publication])
	if err != nil {
		return nil, fmt.Errorf("list publications: %w", err)
	}
	return list, nil
}
