package admin

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// rollback does a requested rollback that no other worker holds.
func (r *Runner) rollback(ctx context.Context) (bool, error) {
	return r.take(ctx, OpRollback, nil)
}

// rollBack swaps the tables and ends the operation in the same transaction.
func (r *Runner) rollBack(ctx context.Context, o Operation) error {
	asked, err := read[ProjectionRollback](o)
	if err != nil {
		return err
	}
	options := rebuild.RollbackOptions{
		AllowBehind: asked.AllowBehind, Keep: asked.Keep,
		Kept: rebuild.Kept{Version: asked.Version, RegisteredAt: asked.RegisteredAt},
	}
	db := ending{Pool: r.cfg.Pool, id: o.ID, owner: r.cfg.Owner}
	err = rebuild.Rollback(ctx, db, asked.Projection, options, failed.Act{By: o.By, Reason: o.signed()})
	if err != nil && projection.Classify(err) == projection.ClassLock { // it has waited for long enough
		err = errPermanent{err}
	}
	return err
}

// ending begins transactions that end the operation when they commit. A commit fails if the operation
// has ended or another worker has taken it over, because a second swap would undo the first.
type ending struct {
	*pgxpool.Pool
	id    int64
	owner string
}

func (e ending) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := e.Pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return endingTx{tx, e}, nil
}

type endingTx struct {
	pgx.Tx
	of ending
}

// Commit ends the operation, or returns errEnded.
func (t endingTx) Commit(ctx context.Context) error {
	tag, err := t.Exec(ctx, queryEndOwn, t.of.id, t.of.owner)
	if err == nil && tag.RowsAffected() == 0 {
		err = errEnded
	}
	if err != nil {
		return errors.Join(err, t.Rollback(context.WithoutCancel(ctx)))
	}
	return t.Tx.Commit(ctx)
}
