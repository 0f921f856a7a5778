package projector

import "github.com/tidemark-go/tidemark/pkg/projector/internal/registry"

// Beginner begins transactions: a *pgxpool.Pool or a *pgx.Conn.
type Beginner = registry.Beginner

// ErrRegistered is returned for a projection that is registered with another group or schema; its message says which.
var ErrRegistered = registry.ErrRegistered

// ProjectionOf answers the projection that a registered name is of: scores of scores~next and
// scores~previous too, which are the tables that are being built and those that were replaced.
func ProjectionOf(name string) string {
	return registry.ProjectionOf(name)
}
