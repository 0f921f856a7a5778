package publications

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Publication is the state of a pair.
type Publication struct {
	Key
	Status   string // "ACTIVE", "PAUSED" or "FAILED"; an expired pause counts as "ACTIVE"
	Position int64  // all up to it is published or parked; written every few seconds without events of the topic

	// Behind is the number of events of the topic after Position, archived ones too. Parked events are
	// counted apart. If CountedBehind events, shared among the pairs, do not reach the end of the
	// journal, it is extrapolated from ten parts of the way. Lag is then the age of the first event that
	// may be of the topic.
	Behind    int64
	Lag       time.Duration // age of the first of them; 0: none
	Estimated bool

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

// ManyParked reports whether Parked and Retrying reached the limit, so there may be more.
func (p Publication) ManyParked() bool { return p.Parked+p.Retrying >= CountedBehind }

// ManyGhosts reports whether Ghosts reached the limit, so there may have been more.
func (p Publication) ManyGhosts() bool { return p.Ghosts >= GhostsKept }

// CountedBehind limits how many events are read to count those behind pairs' positions.
const CountedBehind = 10_000

// List lists the pairs of a topic, a publisher, or both, ordered by key. Empty names match all.
func List(ctx context.Context, db event.Querier, of Key) ([]Publication, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Publication], "list publications",
		queryList, of.Topic, of.Publisher, CountedBehind)
}

// Key names a pair.
type Key struct{ Topic, Publisher string }

func (k Key) String() string { return k.Topic + "/" + k.Publisher }

// Ghost is an event that a sink received but the journal no longer has: the commit that appended it
// was lost in a failover, or in a restore from backup.
type Ghost struct {
	Key
	CampaignID string
	EventID    uuid.UUID
	Seq        int64 // the seq it had
	Position   int64
	SeenAt     time.Time

	// Now is what the journal has now: GhostAgain if the same event was appended again, at any seq;
	// else GhostArchived if an archived event has its seq in its campaign, GhostAnother if another event
	// has it, or GhostNothing.
	Now string
}

// Values of [Ghost.Now].
const (
	GhostNothing  = "nothing"
	GhostAnother  = "another event"
	GhostArchived = "archived event" // which one is told by its id, after a restore
	GhostAgain    = "appended again"
)

// GhostFilter selects ghosts. Empty fields match any.
type GhostFilter struct {
	Topic, Publisher string
	After            *Ghost // only ghosts after it, in the order of [ListGhosts]
	Limit            int    // default 100
}

// ListGhosts lists ghosts, by topic, publisher, position, campaign and id. They are kept for 30
// days, up to 10,000 of a pair.
//
// A relay remembers about the last 32,000 events it sent, at least 500 of each pair, and looks them
// up when the database is another one or was restarted. It does not find events that were not
// acknowledged, that an operator sent by hand, or that ended processes sent.
func ListGhosts(ctx context.Context, db event.Querier, f GhostFilter) ([]Ghost, error) {
	after := Ghost{Position: -1}
	if f.After != nil {
		after = *f.After
	}
	return rows.All(ctx, db, pgx.RowToStructByPos[Ghost], "list ghosts",
		queryListGhosts, f.Topic, f.Publisher, cmp.Or(f.Limit, 100), after.Topic, after.Publisher, after.Position,
		after.CampaignID, after.EventID.String())
}

// GhostsKept is the limit of ghosts kept for a pair.
const GhostsKept = 10_000
