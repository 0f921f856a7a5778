package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Behind says how far something is behind the journal.
type Behind struct {
	Group      string
	Projection string        // empty: the group as a whole, that is, its checkpoints
	Events     int64         // events that are appended and not applied
	Campaigns  int64         // campaigns they belong to
	Age        time.Duration // since the oldest of them was appended, by the database's clock; 0 if there is none
	// there is too much to count: Events and Campaigns are near, and Age is the oldest of what was looked at
	Estimated bool
}

// Lag answers how far each consumer group is behind and, after it, each of its projections. A
// projection is behind its group in campaigns where it failed or is catching up. Events that no
// projection wants count until a worker has passed them.
//
// Up to 10,000 work items of a group are counted, and 10,000 deferred pairs. Where there are more,
// some pages of their tables are read, which stand for the rest.
func Lag(ctx context.Context, db journal.Querier) ([]Behind, error) {
	return rows.All(ctx, db, func(row pgx.CollectableRow) (Behind, error) {
		var b Behind
		var seconds float64
		err := row.Scan(&b.Group, &b.Projection, &b.Events, &b.Campaigns, &seconds, &b.Estimated)
		b.Age = time.Duration(seconds * float64(time.Second))
		return b, err
	}, "measure the lag", queryLag, exactRows, samplePages)
}
