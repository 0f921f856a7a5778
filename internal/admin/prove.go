package admin

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// Proof is what [Prove] has compared.
type Proof struct {
	Projection        string `json:"projection"`
	ProjectionVersion int    `json:"projection_version"`
	Group             string `json:"group"`
	Campaigns         int64  `json:"campaigns"` // that the group has applied events of
	Events            int64  `json:"events"`    // that it has applied
	Unhashed          int64  `json:"unhashed"`  // campaigns of whose events only the number is known
	Behind            int64  `json:"behind"`    // campaigns in which the projection is behind the group, unproved
	Resolved          int64  `json:"resolved"`  // events that it leaves out, for operators have resolved them
	Skipped           int64  `json:"skipped"`   // events that its policy has skipped, as the failure log knows
	Differing         int64  `json:"differing"` // campaigns of which not exactly the journal's events were applied
}

// Prove compares the number and the ids of the events that a projection's group has applied with
// the journal, and applies none: no code is needed. visit gets the campaigns that differ. It
// changes nothing. Errors are [rebuild.ErrUnknownProjection] and the database's.
func Prove(ctx context.Context, pool *pgxpool.Pool, projection string, visit func(lease.Unproved)) (Proof, error) {
	r, err := Registered(ctx, pool, projection)
	if err != nil {
		return Proof{}, fmt.Errorf("prove: %w", err)
	}
	p := Proof{Projection: projection, ProjectionVersion: r.Version, Group: r.Group}
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error {
			proved, err := lease.Prove(ctx, tx, p.Group, func(u lease.Unproved) {
				p.Differing++
				visit(u)
			})
			if err != nil {
				return err
			}
			p.Campaigns, p.Events, p.Unhashed = proved.Campaigns, proved.Events, proved.Unhashed
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
