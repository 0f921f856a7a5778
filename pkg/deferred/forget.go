package deferred

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/lease"
)

const (
	// queryPairCampaigns and queryForget read and delete what stands in the index of the projection's pairs, or the table where there is none.
	queryPairCampaigns = `SELECT d.campaign_id FROM tidemark.deferred d WHERE d.consumer_group = $1 AND d.projection = $2`
	queryForget        = `DELETE FROM tidemark.deferred d WHERE d.consumer_group = $1 AND d.projection = $2`
)

// Forget deletes all pairs of a projection, which is being removed. Work under way on them fails. The caller holds the registry's lock.
func Forget(ctx context.Context, tx pgx.Tx, group, projection string) (int64, error) {
	rows, err := tx.Query(ctx, queryPairCampaigns, group, projection)
	if err != nil {
		return 0, fmt.Errorf("forget the pairs of projection %s: %w", projection, err)
	}
	campaigns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, fmt.Errorf("forget the pairs of projection %s: %w", projection, err)
	}
	if err := lease.Fence(ctx, tx, group, campaigns); err != nil {
		return 0, err
	}
	tag, err := tx.Exec(ctx, queryForget, group, projection)
	if err != nil {
		return 0, fmt.Errorf("forget the pairs of projection %s: %w", projection, err)
	}
	return tag.RowsAffected(), nil
}
