package lease

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
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
	rows, err := db.Query(ctx, queryStillHeld, k.Group, k.Owner, ids, generations, checkpoints)
	if err != nil {
		return nil, fmt.Errorf("look which leases are held: %w", err)
	}
	held, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look which leases are held: %w", err)
	}
	return held, nil
}
