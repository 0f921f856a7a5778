package deferred

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	exactRows   = 5000 // counted one by one
	samplePages = 24   // read where there are more

	// queryReport counts up to $1 rows, and beyond that reads $2 pages (migrations/00009_status.sql).
	queryReport = `SELECT consumer_group, projection, status, class, pairs, estimated, since
		FROM tidemark.deferred_report($1, $2)`
)

// Sum is how many pairs of a projection have a status and, if they have failed, a class of error.
type Sum struct {
	Group      string // consumer group
	Projection string
	Status     Status
	Class      string // infrastructure, transient, permanent or lock; empty: unknown, or rebuilding
	Pairs      int64
	Estimated  bool       // there are too many to count: Pairs is near
	Since      *time.Time // when the first of them failed; nil: rebuilding
}

// Report sums up all pairs, in the order of group, projection, status and class, at one moment. It
// takes no longer for ten million than for ten thousand: about 5,000 that failed and 5,000 that are
// due are counted, those of other sums are estimated from some pages of the table.
func Report(ctx context.Context, db journal.Querier) ([]Sum, error) {
	rows, err := db.Query(ctx, queryReport, exactRows, samplePages)
	if err != nil {
		return nil, fmt.Errorf("sum up deferred pairs: %w", err)
	}
	sums, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Sum])
	if err != nil {
		return nil, fmt.Errorf("sum up deferred pairs: %w", err)
	}
	return sums, nil
}
