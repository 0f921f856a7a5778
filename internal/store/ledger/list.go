package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Place is the place of a partition of a projection across campaigns.
type Place struct {
	Group      string // consumer group
	Projection string // its set of tables
	Partition  int    // from 0
	Position   int64  // events up to it are applied, or wait behind the event of their key that failed

	// Behind is the number of events after Position that the projection takes, in all its partitions.
	Behind    int64
	Lag       time.Duration // age of the first of them; 0: none
	Estimated bool          // Behind is extrapolated, and Lag may be too much: see [publications.Publication]
	Keys      int64         // keys of the projection that are behind, in all its partitions, counted up to a limit
	KeysFrom  int64         // position of the next event of the one that is furthest behind; 0: none
	Holder    string        // host and process of the worker that holds it; empty: none
}

// Places lists the places of all projections across campaigns, ordered by projection and partition.
func Places(ctx context.Context, db event.Querier) ([]Place, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Place], "list the places of projections across campaigns", queryPlaces,
		publications.CountedBehind)
}
