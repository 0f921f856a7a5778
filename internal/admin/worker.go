package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// DrainWorker tells a worker to finish what it has and claim no more campaigns, until
// [Acts.UndrainWorker] or its end. What it publishes goes on. The request confirms with the
// worker's host. Errors: [ErrDeclined], [ErrNotFound].
func (a *Acts) DrainWorker(ctx context.Context, r Request, owner string) (*Outcome, error) {
	return a.drain(ctx, r, ActDrain, owner, func(tx pgx.Tx) (bool, error) {
		workers, err := lease.Workers(ctx, tx)
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(workers, func(w lease.Worker) bool { return w.Owner == owner })
		if i < 0 {
			return false, nil
		}
		if err := r.confirms(workers[i].Host); err != nil {
			return false, err
		}
		return lease.Drain(ctx, tx, owner, r.Who.Name)
	})
}

// UndrainWorker has a worker that was drained claim again. Errors: [ErrNotFound].
func (a *Acts) UndrainWorker(ctx context.Context, r Request, owner string) (*Outcome, error) {
	return a.drain(ctx, r, ActUndrain, owner, func(tx pgx.Tx) (bool, error) { return lease.Undrain(ctx, tx, owner) })
}

func (a *Acts) drain(
	ctx context.Context, r Request, kind Kind, owner string, do func(pgx.Tx) (bool, error),
) (*Outcome, error) {
	asked := map[string]string{"owner": owner}
	return a.do(ctx, act{Request: r, kind: kind, request: asked}, func(_ context.Context, tx pgx.Tx) (any, error) {
		found, err := do(tx)
		if err == nil && !found {
			err = fmt.Errorf("worker %q: %w", owner, ErrNotFound)
		}
		return asked, err
	})
}
