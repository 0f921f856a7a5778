package rebuild

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// queryProjections reads a table of one row a projection.
const queryProjections = `SELECT name, consumer_group, version, schema_name, table_names, state, registered_at
	FROM tidemark.projections ORDER BY name`

// Registered is projector.Registered.
type Registered struct {
	Name         string
	Group        string // consumer group
	Version      int
	Schema       string   // of its tables
	Tables       []string // without the schema
	State        string   // "active", or "joining" while campaigns are being filed for it
	RegisteredAt time.Time
}

// Projections is projector.Projections.
func Projections(ctx context.Context, db journal.Querier) ([]Registered, error) {
	rows, err := db.Query(ctx, queryProjections)
	if err != nil {
		return nil, fmt.Errorf("list projections: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Registered])
	if err != nil {
		return nil, fmt.Errorf("list projections: %w", err)
	}
	return all, nil
}
