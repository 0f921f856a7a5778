package admin

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
)

// Proof is the result of [Prove].
type Proof struct {
	Projection        string `json:"projection"`
	ProjectionVersion int    `json:"projection_version"`
	Group             string `json:"group"`
	Campaigns         int64  `json:"campaigns"`  // with events applied by the group
	Events            int64  `json:"events"`     // applied by the group
	Unhashed          int64  `json:"unhashed"`   // campaigns with only a count of their events, no hash
	Partitions        int64  `json:"partitions"` // across campaigns, proved instead of campaigns
	Behind            int64  `json:"behind"`     // failed campaigns of the projection, not proved
	Resolved          int64  `json:"resolved"`   // events left out because operators resolved them
	Skipped           int64  `json:"skipped"`    // events skipped by its policy, from the failure log
	Differing         int64  `json:"differing"`  // campaigns whose applied events differ from the journal's
}

// Prove compares the number and the ids of the events that a projection's group has applied with the
// journal. It applies no events, so it needs no code, and it changes nothing. It calls visit for each
// campaign that differs, or partition. Errors: [rebuild.ErrUnknownProjection].
func Prove(ctx context.Context, pool *pgxpool.Pool, projection string, visit func(lease.Unproved)) (Proof, error) {
	r, err := Registered(ctx, pool, projection)
	if err != nil {
		return Proof{}, fmt.Errorf("prove: %w", err)
	}
	p := Proof{Projection: projection, ProjectionVersion: r.Version, Group: r.Group}
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error {
			differs := func(u lease.Unproved) {
				p.Differing++
				visit(u)
			}
			partitions, err := ledger.Prove(ctx, tx, projection)
			if err != nil {
				return err
			}
			for _, one := range partitions {
				p.Partitions, p.Events = p.Partitions+1, max(p.Events, one.Applied)
				if one.Differs() {
					differs(lease.Unproved{
						CampaignID: one.Partition, Checkpoint: one.Position, Applied: one.Applied, Journal: one.Journal,
						SameIDs: one.SameIDs,
					})
				}
			}
			if len(partitions) == 0 {
				proved, err := lease.Prove(ctx, tx, p.Group, differs)
				if err != nil {
					return err
				}
				p.Campaigns, p.Events, p.Unhashed = proved.Campaigns, proved.Events, proved.Unhashed
			}
			if p.Behind, err = failed.Count(ctx, tx, failed.Filter{Projection: projection}); err != nil {
				return err
			}
			if p.Resolved, err = failed.CountResolutions(ctx, tx, projection); err != nil {
				return err
			}
			p.Skipped, err = failed.CountSkipped(ctx, tx, projection)
			return err
		})
	return p, err
}
