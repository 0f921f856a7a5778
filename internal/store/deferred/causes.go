package deferred

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Cause is the pairs of a projection that failed or are dead for one reason, as far as fingerprints tell.
type Cause struct {
	Projection  string
	Fingerprint string // empty: unknown
	Failed      int64  // pairs, counted up to the bound
	Dead        int64  // pairs, counted up to the bound
	About       int64  // pairs of this fingerprint in all projections, by the table's statistics; 0: they do not say

	// Of one of the pairs.
	Group         string
	Class         string
	Code          string
	Message       string
	EventType     string
	CampaignID    string
	FirstFailedAt *time.Time
	LastFailedAt  *time.Time
}

// Pairs is how many pairs were counted.
func (c Cause) Pairs() int64 { return c.Failed + c.Dead }

// CauseFilter chooses causes.
type CauseFilter struct {
	Projection  string // "": any
	Fingerprint string // "": any
	After       *CauseKey
	Limit       int // causes; 0: 100
	Bound       int // up to which pairs of each status are counted; 0: 1000
}

// CauseKey is a cause's place in the order of [Causes].
type CauseKey struct{ Projection, Fingerprint string }

// Causes answers what pairs have failed of, by projection and fingerprint, in the order of these.
// It steps from cause to cause along an index and counts each up to the bound, so that it costs no
// more when millions have failed than when thousands have.
func Causes(ctx context.Context, db journal.Querier, f CauseFilter) ([]Cause, error) {
	if f.Limit == 0 {
		f.Limit = 100
	}
	if f.Bound == 0 {
		f.Bound = 1000
	}
	after := CauseKey{}
	if f.After != nil {
		after = *f.After
	}
	rows, err := db.Query(ctx, queryCauses, f.Projection, f.Fingerprint, f.After != nil, after.Projection,
		after.Fingerprint, f.Limit, f.Bound)
	if err == nil {
		var causes []Cause
		if causes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Cause]); err == nil {
			return causes, nil
		}
	}
	return nil, fmt.Errorf("list causes of failures: %w", err)
}
