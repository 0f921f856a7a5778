package retention

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/archive"
)

// Record is a policy with its last run.
type Record struct {
	Policy    string
	ClosedFor time.Duration
	Types     []string
	Every     time.Duration
	Rate      int
	BeganAt   *time.Time // nil: it has never run
	EndedAt   *time.Time // nil: it runs, or was interrupted
	Campaigns int64
	Events    int64
	LeftOut   int64          // campaigns
	Left      []archive.Left // the first of these
	Error     string
}

// List returns up to limit policies after one, in the order of their names.
func List(ctx context.Context, db rows.Querier, after string, limit int) ([]Record, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Record], "list policies", queryList, after, limit)
}

// Request is an archived campaign that an append has asked for.
type Request struct {
	CampaignID string
	AskedBy    string
	AskedAt    time.Time
	Attempts   int
	NextAt     *time.Time // nil: it is back
	KeptUntil  *time.Time // nil: it is not back
	Error      string
}

// Requests returns up to limit requests after one, in the order of campaigns.
func Requests(ctx context.Context, db rows.Querier, after string, limit int) ([]Request, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Request], "list requests", queryRequests, after, limit)
}
