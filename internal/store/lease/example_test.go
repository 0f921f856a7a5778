package lease_test

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// Work under a lease ends with an advance in the same transaction. Both commit, or the lease was
// lost and neither does.
func ExampleKeeper() {
	work := func(ctx context.Context, pool *pgxpool.Pool, apply func(pgx.Tx, lease.Lease) (to int64, err error)) error {
		keeper := lease.Keeper{Group: "default", Owner: uuid.NewString(), TTL: 30 * time.Second}
		claimed, err := keeper.Claim(ctx, pool, "", 64, 0)
		if err != nil {
			return err
		}
		for i, l := range claimed.Leases {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				to, err := apply(tx, l)
				if err != nil {
					return err
				}
				batch := &pgx.Batch{}
				keeper.Advance(batch, []lease.Step{{
					CampaignID: l.CampaignID, Generation: l.Generation, From: l.Checkpoint, To: to,
					Release: true,
				}})
				return lease.Error(tx.SendBatch(ctx, batch).Close())
			})
			if errors.Is(err, lease.ErrLost) {
				continue // another worker has taken over
			}
			if err != nil {
				return errors.Join(err, keeper.Release(ctx, pool, claimed.Leases[i:]))
			}
		}
		return nil
	}
	_ = work
}
