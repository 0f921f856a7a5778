package rebuild

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Registered is a projection as the database knows it, whichever workers run.
type Registered struct {
	Name         string
	Group        string // consumer group
	Version      int
	Schema       string   // of its tables
	Tables       []string // without the schema
	State        string   // "active", or "joining" while campaigns are being filed for it
	RegisteredAt time.Time
}

// Projections lists the projections that are registered, in the order of their names.
func Projections(ctx context.Context, db journal.Querier) ([]Registered, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Registered], "list projections", queryProjections)
}

// Rebuild is a rebuild that has not ended. Its fields are in the order of queryProgress.
type Rebuild struct {
	Projection  string
	Group       string
	FromVersion int // of the tables that are read
	Version     int // that is built; 0: not known yet
	// "requested" until a worker that has the code begins, "copying" while campaigns are taken range
	// by range, "copied" or "joining" while the others are filed, "active" while they catch up
	State string
	Request
	ActiveAt  *time.Time // since when campaigns catch up; nil: not yet
	Campaigns int64      // to catch up at that time
	Events    int64      // of those
	Refusal   string     // why the tables were not exchanged when that was tried last
	Paused    bool
	Backlog
	At time.Time
}

// Request is how a rebuild was asked for.
type Request struct {
	MaxShare    float64
	AllowFailed int64
	Keep        time.Duration
	Verify      int    // campaigns to verify before the exchange
	By, Reason  string // who began it, and why
	StartedAt   time.Time
}

// Backlog is what a rebuild has still to catch up with.
type Backlog struct {
	Left       int64 // campaigns on their way
	LeftEvents int64 // events that they, and those that failed, have before them
	Failed     int64 // campaigns that wait for their next attempt
	Dead       int64 // campaigns that wait for an operator
	Estimated  bool  // there are too many to count: the other figures are near
}

// NameOf is the name under which a rebuild of the projection is paused and resumed
// (internal/store/pause), and under which its pairs are found in internal/store/failed.
func NameOf(projection string) string { return registry.NextTables.Of(projection) }

// Rebuilds lists the rebuilds under way, or that of one projection, in the order of their names. It
// counts up to 10,000 of the pairs that are behind; beyond, figures are estimated.
func Rebuilds(ctx context.Context, db journal.Querier, projection string) ([]Rebuild, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Rebuild], "list rebuilds", queryProgress, projection)
}

// Progress is the share of the rebuild's campaigns that have caught up, from 0 to 1. Campaigns that
// have failed have not.
func (r Rebuild) Progress() float64 {
	switch left := r.Left + r.Failed + r.Dead; {
	case r.ActiveAt == nil && r.Campaigns == 0:
		return 0 // nothing is known yet
	case r.Campaigns == 0:
		return 1
	default:
		return max(0, 1-float64(left)/float64(r.Campaigns))
	}
}
