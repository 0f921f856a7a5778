package publications

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

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
	// else GhostAnother if another event has its seq in its campaign, or GhostNothing.
	Now string
}

// Values of [Ghost.Now].
const (
	GhostNothing = "nothing"
	GhostAnother = "another event"
	GhostAgain   = "appended again"
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
func ListGhosts(ctx context.Context, db journal.Querier, f GhostFilter) ([]Ghost, error) {
	if f.Limit == 0 {
		f.Limit = 100
	}
	after := Ghost{Position: -1}
	if f.After != nil {
		after = *f.After
	}
	return rows.All(ctx, db, pgx.RowToStructByPos[Ghost], "list ghosts",
		queryListGhosts, f.Topic, f.Publisher, f.Limit, after.Topic, after.Publisher, after.Position, after.CampaignID,
		after.EventID.String())
}

// GhostsKept is the limit of ghosts kept for a pair.
const GhostsKept = 10_000
