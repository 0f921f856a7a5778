package admin

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// sinceItems is how many items are looked at to tell what became of them.
const sinceItems = 10_000

// Since is what became of things that an operation gave back to workers to be tried again: it is done with them long
// before they are.
type Since struct {
	LookedAt    int64 `json:"looked_at"`    // the first of those that were done, up to 10,000
	Passed      int64 `json:"passed"`       // they worked
	Waiting     int64 `json:"waiting"`      // nothing is known yet
	FailedAgain int64 `json:"failed_again"` // at the same event
}

// Retries says whether items that are done are only to be tried again.
func (k OperationKind) Retries() bool { return k == OpRequeue || k == OpRetryParked }

func (a *Acts) since(ctx context.Context, o *Operation) (*Since, error) {
	rows, err := a.cfg.Pool.Query(ctx, queryDone, o.ID, sinceItems)
	if err != nil {
		return nil, fmt.Errorf("operation %d: %w", o.ID, err)
	}
	items, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Item])
	if err != nil {
		return nil, fmt.Errorf("operation %d: %w", o.ID, err)
	}
	s := &Since{LookedAt: int64(len(items))}
	if o.Kind == OpRequeue {
		s.Passed, s.FailedAgain, err = deferred.CountOutcomes(ctx, a.cfg.Pool, placesOf(items))
	} else {
		s.Passed, s.FailedAgain, err = publications.CountOutcomes(ctx, a.cfg.Pool, parkedOf(items))
	}
	s.Waiting = s.LookedAt - s.Passed - s.FailedAgain
	return s, err
}
