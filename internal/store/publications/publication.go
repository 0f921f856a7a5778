package publications

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Publication is the state of a pair.
type Publication struct {
	Key
	Status   string // "ACTIVE", "PAUSED" or "FAILED"; an expired pause counts as "ACTIVE"
	Position int64  // all up to it is published or parked; written every few seconds without events of the topic

	// Behind is the number of journal events after Position, before the topic's filter. Above
	// CountedBehind it is the distance in positions, which includes the gaps of rollbacks.
	Behind int64
	Lag    time.Duration // age of the first of them; 0: none

	Errors        int // consecutive failures
	LastError     string
	LastErrorAt   *time.Time
	FailingSince  *time.Time // when the first of them happened; nil: none
	NextAttemptAt *time.Time // nil: no wait
	// events that wait for an operator; counted up to CountedBehind together with Retrying
	Parked   int64
	Retrying int64 // events being retried, and campaigns catching up

	Stop

	Published       int64 // events, since the pair was created
	LastPublishedAt *time.Time
	Holder          string // host and process of the relay that holds it; empty: none
	Generation      int64
	CreatedAt       time.Time

	Ghosts   int64      // events sent but no longer in the journal, 10,000 at most: see [ListGhosts]
	GhostsAt *time.Time // when the last ghost was found
}

// Stop is why a pair is stopped.
type Stop struct {
	Reason      string // why it is paused or has failed
	Actor       string // who paused it
	PausedUntil *time.Time
}

// Failing reports whether the pair is active but its sink fails.
func (p Publication) Failing() bool { return p.Status == "ACTIVE" && p.Errors > 0 }

// Estimated reports whether Behind is a distance in positions.
func (p Publication) Estimated() bool { return p.Behind > CountedBehind }

// ManyParked reports whether Parked and Retrying reached the limit, so there may be more.
func (p Publication) ManyParked() bool { return p.Parked+p.Retrying >= CountedBehind }

// ManyGhosts reports whether Ghosts reached the limit, so there may have been more.
func (p Publication) ManyGhosts() bool { return p.Ghosts >= GhostsKept }

// CountedBehind limits how many events are counted behind a pair's position.
const CountedBehind = 10_000

// List lists the pairs of a topic, a publisher, or both, ordered by key. Empty names match all.
func List(ctx context.Context, db journal.Querier, of Key) ([]Publication, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Publication], "list publications",
		queryList, of.Topic, of.Publisher, CountedBehind)
}

// Key names a pair.
type Key struct{ Topic, Publisher string }

func (k Key) String() string { return k.Topic + "/" + k.Publisher }
