package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
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
	_, err := rows.Exec(ctx, tx, fmt.Sprintf("fence %d campaigns of group %s", len(campaignIDs), group),
		queryFence, group, campaignIDs)
	return err
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
	_, err := rows.Exec(ctx, tx, fmt.Sprintf("pause campaign %q of group %s", campaignID, group),
		queryPause, group, campaignID, ownerPaused, lasts)
	return err
}

// Resume gives back a campaign that was paused. It leaves alone a lease that is a worker's.
func Resume(ctx context.Context, tx pgx.Tx, group, campaignID string) error {
	_, err := rows.Exec(ctx, tx, fmt.Sprintf("resume campaign %q of group %s", campaignID, group),
		queryUnpause, group, campaignID, ownerPaused)
	return err
}
