package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Fence takes campaigns from their holders, for a transaction that changes data the holders relied
// on, such as the place of a failed campaign. Work under way fails with [ErrLost] and runs again
// after tx commits. Until then claims skip the campaigns. Paused campaigns stay paused.
//
// Call it once in tx, with all campaigns, before writing or locking rows of tidemark.deferred.
// Workers lock a group's leases first, in the order of campaign_id; another order may deadlock with
// them.
func Fence(ctx context.Context, tx pgx.Tx, group string, campaignIDs []string) error {
	if len(campaignIDs) == 0 {
		return nil
	}
	_, err := rows.Exec(ctx, tx, fmt.Sprintf("fence %d campaigns of group %s", len(campaignIDs), group),
		queryFence, group, campaignIDs)
	return err
}

const ownerPaused = "paused"

// Pause takes a campaign's lease from its holder for d from the start of tx, or until [Resume] if d
// is zero. Until then no worker can claim the campaign. Work under way fails with [ErrLost].
func Pause(ctx context.Context, tx pgx.Tx, group, campaignID string, d time.Duration) error {
	var lasts *time.Duration
	if d > 0 {
		lasts = &d
	}
	_, err := rows.Exec(ctx, tx, fmt.Sprintf("pause campaign %q of group %s", campaignID, group),
		queryPause, group, campaignID, ownerPaused, lasts)
	return err
}

// Resume releases a paused campaign. It leaves a worker's lease alone.
func Resume(ctx context.Context, tx pgx.Tx, group, campaignID string) error {
	_, err := rows.Exec(ctx, tx, fmt.Sprintf("resume campaign %q of group %s", campaignID, group),
		queryUnpause, group, campaignID, ownerPaused)
	return err
}
