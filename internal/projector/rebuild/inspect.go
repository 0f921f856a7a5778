package rebuild

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
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
	Scope        string // "campaign", or "journal": it has keys instead of campaigns
}

// Projections lists the registered projections, ordered by name.
func Projections(ctx context.Context, db event.Querier) ([]Registered, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Registered], "list projections", queryProjections)
}

// Other is a projection of which live workers have an SQL file with other statements than the file that made
// its tables.
type Other struct {
	Name    string
	Version int // the same of both
	Since   *time.Time
	Workers []string
}

// Others lists these projections, ordered by name.
func Others(ctx context.Context, db event.Querier) ([]Other, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Other], "compare SQL files", queryOthers)
}

// Rebuild is a rebuild under way. Its fields are in the order of queryProgress.
type Rebuild struct {
	Projection  string
	Group       string
	FromVersion int // version of the tables that are read
	Version     int // version being built; 0: not known yet
	// "requested" until a worker that has the code begins, "copying" while ranges of campaigns are
	// copied, "copied" or "joining" while the others are behind, "active" while they catch up
	State string
	Request
	ActiveAt  *time.Time // when its tables were made; nil: not yet
	Campaigns int64      // of the group at that time; 0: it is across campaigns
	Events    int64      // of those campaigns, or up to the position of the live tables
	Refusal   string     // why the last swap was refused
	Paused    bool
	Backlog
	At time.Time
}

// Request is how a rebuild was requested.
type Request struct {
	MaxShare    float64
	AllowFailed int64
	Keep        time.Duration
	Verify      int    // campaigns to verify before the swap
	By, Reason  string // who began it, and why
	StartedAt   time.Time
}

// Backlog is what a rebuild still has to catch up with.
type Backlog struct {
	Left       int64 // campaigns, or keys and partitions, still to catch up
	LeftEvents int64 // events that these and the failed ones still have to apply
	Failed     int64 // campaigns that wait for a retry
	Dead       int64 // campaigns that wait for an operator
	Estimated  bool  // too many to count: the other figures are approximate
}

// NameOf returns the name under which a projection's rebuild is paused and resumed
// (internal/store/pause), and its campaigns that are behind are found (internal/store/failed).
func NameOf(projection string) string { return registry.NextTables.Of(projection) }

// Rebuilds lists the rebuilds under way, or one projection's, ordered by name. It counts up to
// 10,000 campaigns that are behind; beyond that, figures are estimated.
func Rebuilds(ctx context.Context, db event.Querier, projection string) ([]Rebuild, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Rebuild], "list rebuilds", queryProgress, projection)
}

// Progress returns the share of the campaigns that have caught up, from 0 to 1. Failed ones have not.
func (r Rebuild) Progress() float64 {
	switch left := r.Left + r.Failed + r.Dead; {
	case r.ActiveAt == nil && r.Campaigns == 0:
		return 0 // not known yet
	case r.Campaigns == 0 && r.Events > 0: // across campaigns
		return max(0, 1-float64(r.LeftEvents)/float64(r.Events))
	case r.Campaigns == 0:
		return 1
	default:
		return max(0, 1-float64(left)/float64(r.Campaigns))
	}
}
