package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// registeredScope is the scope of a registered set of tables.
type registeredScope struct {
	Name       string
	Version    int
	Scope      projection.Scope
	Partitions int
}

// checkScopes compares scopes and partitions with those of the registered sets of tables.
func (g *Registrar) checkScopes(ctx context.Context) error {
	all, err := rows.All(ctx, g.Cfg.Pool, pgx.RowToStructByPos[registeredScope], "", queryScopes, g.Cfg.ConsumerGroup)
	if err != nil {
		return fmt.Errorf("check the scopes: %w", err)
	}
	var faults []error
	for _, k := range g.Projections {
		for _, r := range all {
			scope, n := projection.ScopeCampaign, len(k.Places())
			_, reacts := kind.ReactsFrom(k.Projection)
			if k.Described.Across() {
				scope = projection.ScopeJournal
			}
			switch {
			case ProjectionOf(r.Name) != k.Described.Name:
			case r.Scope != scope:
				faults = append(faults, fmt.Errorf("%w: projection %s has the scope %s in version %d, and %s is registered with "+
					"the scope %s: give it another name", ErrRegistered, k.Described.Name, scope, k.Described.Version, r.Name,
					r.Scope))
			case reacts && r.Partitions != n:
				faults = append(faults, fmt.Errorf("%w: process %s has %d partitions here, %s is registered with %d: a process "+
					"keeps their number, or gets another name", ErrRegistered, k.Described.Name, n, r.Name, r.Partitions))
			case r.Version == k.Described.Version && k.Described.Across() && r.Partitions != n:
				faults = append(faults, fmt.Errorf("%w: version %d of projection %s has %d partitions here, %s is registered with "+
					"%d: raise the version to rebuild it with %[4]d, or go back to %[6]d", ErrRegistered, r.Version,
					k.Described.Name, n, r.Name, r.Partitions))
			}
		}
	}
	return errors.Join(faults...)
}
