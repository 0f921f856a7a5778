package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// queryStats reads the planner's estimate and the first entry of the index on expires_at.
const queryStats = `SELECT greatest(c.reltuples, 0)::bigint,
	(SELECT i.expires_at FROM tidemark.inbox i ORDER BY i.expires_at LIMIT 1), now()
	FROM pg_class c WHERE c.oid = 'tidemark.inbox'::regclass`

// Statistics is how it stands with the marks of all consumers.
type Statistics struct {
	Rows int64 // the planner's estimate, as of the last vacuum or analyze
	// when the next mark expires or, in the past, since when it could have been pruned; nil: there is none
	OldestExpiry *time.Time
	At           time.Time // the database's time
}

// Stats answers how it stands with the inbox, in a moment, however large it is.
func Stats(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
},
) (Statistics, error) {
	rows, err := db.Query(ctx, queryStats)
	if err != nil {
		return Statistics{}, fmt.Errorf("look at the inbox: %w", err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Statistics])
	if err != nil {
		return Statistics{}, fmt.Errorf("look at the inbox: %w", err)
	}
	return s, nil
}
