package lease

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Fence takes campaigns from their holders, for a transaction that changes what their holder
// went by, such as where a deferred pair stands. Work under way on what was true before fails with
// [ErrLost] and is done again after tx has committed; campaigns that are paused stay so. Claims
// pass the campaigns by until then.
//
// Call it in tx before rows of tidemark.deferred are written or locked, once, with all campaigns:
// workers lock the leases of a group first and in the order of campaign_id, and a transaction that
// does not may deadlock with them.
func Fence(ctx context.Context, tx pgx.Tx, group string, campaignIDs []string) error {
	if len(campaignIDs) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, queryFence, group, campaignIDs); err != nil {
		return fmt.Errorf("fence %d campaigns of group %s: %w", len(campaignIDs), group, err)
	}
	return nil
}
