package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Place is where a consumer group stands in a campaign, and who has the campaign, or had it last.
type Place struct {
	Group      string
	Owner      string
	Generation int64
	ExpiresAt  *time.Time // nil: it was given back or, where Held, has no end
	Held       bool       // by the database's clock
	Checkpoint int64      // the last seq that was applied
	Host       string     // of the owner; empty if it has left no record
	PID        int        // of the owner; 0 if it has left no record
}

// Places answers where each consumer group stands in a campaign, in the order of their names.
// Groups that have never had the campaign are not among them.
func Places(ctx context.Context, db DB, campaignID string) ([]Place, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Place], fmt.Sprintf("look at the leases of campaign %q", campaignID),
		queryPlaces, campaignID)
}
