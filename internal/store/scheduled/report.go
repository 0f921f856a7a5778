package scheduled

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// How a report counts (docs/adr/0009).
const (
	exactRows   = 10_000
	samplePages = 64
)

// Report is the state of scheduled appends. Overdue and Refused are counted up to 10,000.
type Report struct {
	Pending    int64 // to be made, the other two included
	Estimated  bool  // Pending is
	Overdue    int64 // due, and not made yet
	OverdueFor time.Duration
	Refused    int64 // to be tried again
}

// Counts returns the report. Its cost is bounded.
func Counts(ctx context.Context, db rows.Querier) (Report, error) {
	return rows.One(ctx, db, pgx.RowToStructByPos[Report], "count scheduled appends", queryReport, exactRows, samplePages)
}
