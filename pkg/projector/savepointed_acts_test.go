package projector_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/bulk"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestWhatOperatorsDoWhileAGroupIsAppliedSavepointed keeps a savepointed group busy. Acts that do
// not need the campaign's lease must get through. The others must wait no longer than their limit.
func TestWhatOperatorsDoWhileAGroupIsAppliedSavepointed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	act := failed.Act{By: "ada", Reason: "r"}
	key := failed.Key{Projection: "picky", CampaignID: "a"}
	acts := map[string]struct {
		do    func(context.Context, pgx.Tx) error
		waits bool
	}{
		"requeue": {do: func(ctx context.Context, tx pgx.Tx) error { return failed.Requeue(ctx, tx, key, act) }},
		"requeue event": {do: func(ctx context.Context, tx pgx.Tx) error {
			_, err := failed.RequeueSeq(ctx, tx, "", "a", 1, act)
			return err
		}},
		"requeue all": {do: func(ctx context.Context, tx pgx.Tx) error {
			_, err := bulk.Requeue(ctx, tx, failed.Filter{}, act)
			return err
		}},
		"pause projection": {do: func(ctx context.Context, tx pgx.Tx) error {
			return pause.Set(ctx, tx, pause.Target{Group: "default", Projection: "picky"}, "ada", "r", 0)
		}},
		"pause group": {do: func(ctx context.Context, tx pgx.Tx) error {
			return pause.Set(ctx, tx, pause.Target{Group: "default"}, "ada", "r", 0)
		}},
		"pause campaign": {waits: true, do: func(ctx context.Context, tx pgx.Tx) error {
			return pause.Set(ctx, tx, pause.Target{Group: "default", CampaignID: "a"}, "ada", "r", 0)
		}},
		"resolve": {waits: true, do: func(ctx context.Context, tx pgx.Tx) error {
			return failed.Resolve(ctx, tx, key, 1, act)
		}},
		"resolve all": {waits: true, do: func(ctx context.Context, tx pgx.Tx) error {
			_, err := bulk.Resolve(ctx, tx, failed.Filter{}, act)
			return err
		}},
	}
	armed, tried := false, false
	p := workerOf(t, pool, func(c *projector.Config) {
		c.Concurrency = 1
		c.OnStep = func(step kind.Step) {
			if step != kind.StepDeferring || !armed || tried {
				return
			}
			tried = true
			for name, one := range acts {
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(t.Context(), `SET LOCAL lock_timeout = 100`); err != nil {
						return err
					}
					if err := one.do(t.Context(), tx); err != nil {
						return err
					}
					return errUndone
				})
				var pgErr *pgconn.PgError
				if waited := errors.As(err, &pgErr) && pgErr.Code == "55P03"; waited != one.waits || !waited &&
					!errors.Is(err, errUndone) {
					t.Errorf("%s: %v, want a wait: %t", name, err, one.waits)
				}
			}
		}
	}, newPicky(nil).failWith(failNegative))
	appendMoves(t, pool, "a", -1, 1)
	drain(t, p)
	armed = true
	retry(t, pool, p)
	if !tried {
		t.Error("no group was applied savepointed")
	}
	expectPairs(t, pool, "a picky 1 failed 2 transient error")
}

var errUndone = errors.New("undone")
