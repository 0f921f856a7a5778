package lease

import (
	"github.com/jackc/pgx/v5"
)

// TakeOver queues on batch the acquisition of campaigns by a transaction that does their work
// itself and ends with [Keeper.Advance], releasing them. Its holder meets the fence. A
// campaign that is paused is left out, and without wait so is one that is held or that another is
// writing. Each campaign must be named once. taken gets what was acquired.
func (k Keeper) TakeOver(batch *pgx.Batch, campaignIDs []string, wait bool, taken func([]Lease)) {
	batch.Queue(queryTakeOver, k.Group, k.Owner, campaignIDs, wait, k.TTL).Query(func(rows pgx.Rows) error {
		leases, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Lease])
		if err == nil {
			taken(leases)
		}
		return err
	})
}
