package failed

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	exactRows   = 5000 // counted one by one
	samplePages = 24   // read where there are more

)

// Sum is how many pairs of a projection have a status and, if they have failed, a class of error.
type Sum struct {
	Group      string // consumer group
	Projection string
	Status     Status
	Class      string // infrastructure, transient, permanent or lock; empty: unknown, or rebuilding
	Campaigns  int64
	Estimated  bool       // there are too many to count: Pairs is near
	Since      *time.Time // when the first of them failed; nil: rebuilding
}

// Report sums up all pairs, in the order of group, projection, status and class, at one moment. It
// takes no longer for ten million than for ten thousand: about 5,000 that failed and 5,000 that are
// due are counted, those of other sums are estimated from some pages of the table.
func Report(ctx context.Context, db journal.Querier) ([]Sum, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Sum], "sum up failed campaigns", queryReport, exactRows, samplePages)
}
