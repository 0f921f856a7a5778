package publications

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Ghost is an event that a sink has taken and that the journal has no more: the commit that appended
// it was lost in a failover, or with a restored backup.
type Ghost struct {
	Key
	CampaignID string
	EventID    uuid.UUID
	Seq        int64 // that it had
	Position   int64
	SeenAt     time.Time

	// Now is what stands at its seq in its campaign: GhostNothing, GhostAnother, or GhostAgain if the same
	// event was appended again, wherever it stands.
	Now string
}

// What stands in the place of a ghost.
const (
	GhostNothing = "nothing"
	GhostAnother = "another event"
	GhostAgain   = "appended again"
)

// GhostFilter says which ghosts are meant. Empty fields mean any.
type GhostFilter struct {
	Topic, Publisher string
	After            *Ghost // only those after it, in the order of [ListGhosts]
	Limit            int    // default 100
}

// ListGhosts lists ghosts, by topic, publisher, position, campaign and id. They are kept for 30 days,
// 10,000 of a pair at most.
//
// A relay remembers about 32,000 events that it sent last, 500 of each pair at least, and looks
// them up when the database is another one or was started anew. What it did not see acknowledged,
// what an operator sent by hand, and what ended processes have sent is not found.
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

// GhostsKept is how many ghosts of a pair are kept.
const GhostsKept = 10_000
