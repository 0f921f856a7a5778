package lease

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The queries by which others look at leases. They lock nothing.
const (
	// queryApplied reads all leases of a group.
	queryApplied = `SELECT coalesce(sum(checkpoint), 0)::bigint FROM tidemark.leases WHERE consumer_group = $1`

	// queryHeld reads all leases of a group.
	queryHeld = `SELECT campaign_id FROM tidemark.leases WHERE consumer_group = $1 AND owner = $2 AND expires_at > '-infinity' ORDER BY campaign_id`
)

// Applied sums the checkpoints of a consumer group: how many events it has gone through, of all campaigns, since its first one.
func Applied(ctx context.Context, db DB, group string) (int64, error) {
	var n int64
	if err := db.QueryRow(ctx, queryApplied, group).Scan(&n); err != nil {
		return 0, fmt.Errorf("sum the checkpoints of group %s: %w", group, err)
	}
	return n, nil
}

// Held lists the campaigns that the owner has leased and neither given back nor lost to another owner. A lease that has expired is among them
// until somebody takes it over.
func (k Keeper) Held(ctx context.Context, db DB) ([]string, error) {
	rows, err := db.Query(ctx, queryHeld, k.Group, k.Owner)
	if err != nil {
		return nil, fmt.Errorf("list the leases of %s: %w", k.Owner, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the leases of %s: %w", k.Owner, err)
	}
	return ids, nil
}
