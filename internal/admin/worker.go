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
// worker's name. Errors: [ErrDeclined], [ErrNotFound].
func (a *Acts) DrainWorker(ctx context.Context, r Request, owner string) (*Outcome, error) {
	t := act{Request: r, kind: ActDrain, confirm: owner}
	return a.drain(ctx, t, owner, func(tx pgx.Tx) (bool, error) { return lease.Drain(ctx, tx, owner, r.Who.Name) })
}

// PreviewDrain answers the worker that [Acts.DrainWorker] would drain. Errors: [ErrNotFound].
func (a *Acts) PreviewDrain(ctx context.Context, owner string) (lease.Worker, error) {
	workers, err := lease.Workers(ctx, a.cfg.Pool)
	if err != nil {
		return lease.Worker{}, err
	}
	i := slices.IndexFunc(workers, func(w lease.Worker) bool { return w.Owner == owner })
	if i < 0 {
		return lease.Worker{}, fmt.Errorf("worker %q: %w", owner, ErrNotFound)
	}
	return workers[i], nil
}

// UndrainWorker has a worker that was drained claim again. Errors: [ErrNotFound].
func (a *Acts) UndrainWorker(ctx context.Context, r Request, owner string) (*Outcome, error) {
	t := act{Request: r, kind: ActUndrain}
	return a.drain(ctx, t, owner, func(tx pgx.Tx) (bool, error) { return lease.Undrain(ctx, tx, owner) })
}

func (a *Acts) drain(
	ctx context.Context, t act, owner string, do func(pgx.Tx) (bool, error),
) (*Outcome, error) {
	asked := map[string]string{"owner": owner}
	t.request = asked
	return a.do(ctx, t, func(_ context.Context, tx pgx.Tx) (any, error) {
		found, err := do(tx)
		if err == nil && !found {
			err = fmt.Errorf("worker %q: %w", owner, ErrNotFound)
		}
		return asked, err
	})
}
