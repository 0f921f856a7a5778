package lease

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// StillHeld answers the campaigns whose leases are as the caller knows them, by owner, generation
// and checkpoint: those that [Keeper.Advance] would not have called lost. It leaves out those that
// is being written at the moment. It is no more than a hint; the fence decides.
func (k Keeper) StillHeld(ctx context.Context, db DB, leases []Lease) ([]string, error) {
	ids, generations := split(leases)
	checkpoints := make([]int64, len(leases))
	for i, l := range leases {
		checkpoints[i] = l.Checkpoint
	}
	return rows.All(ctx, db, pgx.RowTo[string], "look which leases are held",
		queryStillHeld, k.Group, k.Owner, ids, generations, checkpoints)
}
