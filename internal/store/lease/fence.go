package lease

import (
	"context"
	"fmt"
	"time"

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

// ownerPaused owns the leases of campaigns that operators have paused.
const ownerPaused = "paused"

// Pause takes a campaign's lease away from its holder, for d, counted from the beginning of
// tx, or until [Resume] if d is zero. Until then no worker can claim it. Work under way fails with
// [ErrLost].
func Pause(ctx context.Context, tx pgx.Tx, group, campaignID string, d time.Duration) error {
	var lasts *time.Duration
	if d > 0 {
		lasts = &d
	}
	if _, err := tx.Exec(ctx, queryPause, group, campaignID, ownerPaused, lasts); err != nil {
		return fmt.Errorf("pause campaign %q of group %s: %w", campaignID, group, err)
	}
	return nil
}

// Resume gives back a campaign that was paused. It leaves alone a lease that is a worker's.
func Resume(ctx context.Context, tx pgx.Tx, group, campaignID string) error {
	if _, err := tx.Exec(ctx, queryUnpause, group, campaignID, ownerPaused); err != nil {
		return fmt.Errorf("resume campaign %q of group %s: %w", campaignID, group, err)
	}
	return nil
}
