package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Group is a consumer group that has been registered.
type Group struct {
	Name string
	// "ready"; "filing" while the campaigns that were there before it are being filed; "inline" if
	// appends apply, and no worker
	State        string
	RegisteredAt time.Time
}

// Groups lists the consumer groups, in the order of their names.
func Groups(ctx context.Context, db journal.Querier) ([]Group, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Group], "list consumer groups", queryGroups)
}
