package publications

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Publication is how it stands with a pair.
type Publication struct {
	Key
	Status   string // "ACTIVE", "PAUSED" or "FAILED"; a pause that is over by now is none
	Position int64  // up to which all is published or parked; written every few seconds while nothing is the topic's

	// Behind is how many events of the journal come after Position, before the topic's filter. It is
	// counted up to CountedBehind; beyond that it is the distance in positions, which is a little more
	// where transactions were rolled back.
	Behind int64
	Lag    time.Duration // since the first of them was recorded; 0: there is none

	Errors        int // failures in a row
	LastError     string
	LastErrorAt   *time.Time
	FailingSince  *time.Time // when the first of them happened; nil: there is none
	NextAttemptAt *time.Time // nil: nothing is waited for
	// events that wait for an operator; this and the next are counted up to CountedBehind together
	Parked   int64
	Retrying int64 // events that are tried again, and campaigns that are brought back

	Stop

	Published       int64 // events, since the pair was made
	LastPublishedAt *time.Time
	Holder          string // host and process of the relay that holds it; empty: none does
	Generation      int64
	CreatedAt       time.Time

	Ghosts   int64      // events that were sent and that the journal has no more, 10,000 at most: see [ListGhosts]
	GhostsAt *time.Time // when the last of them was found
}

// Stop is why a pair does not go on.
type Stop struct {
	Reason      string // why it is paused or has failed
	Actor       string // who paused it
	PausedUntil *time.Time
}

// Failing says that the pair is to go on, and that its sink fails.
func (p Publication) Failing() bool { return p.Status == "ACTIVE" && p.Errors > 0 }

// Estimated says that Behind is a distance in positions.
func (p Publication) Estimated() bool { return p.Behind > CountedBehind }

// ManyParked says that Parked and Retrying are the first that were counted, and that there may be more.
func (p Publication) ManyParked() bool { return p.Parked+p.Retrying >= CountedBehind }

// ManyGhosts says that there may have been more ghosts than are kept.
func (p Publication) ManyGhosts() bool { return p.Ghosts >= GhostsKept }

// CountedBehind is up to how many events are counted behind a pair's position.
const CountedBehind = 10_000

// List lists the pairs of a topic, a publisher, or both; empty names stand for all. They come in
// the order of their keys.
func List(ctx context.Context, db journal.Querier, of Key) ([]Publication, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Publication], "list publications",
		queryList, of.Topic, of.Publisher, CountedBehind)
}

// Key names a pair.
type Key struct{ Topic, Publisher string }

func (k Key) String() string { return k.Topic + "/" + k.Publisher }
