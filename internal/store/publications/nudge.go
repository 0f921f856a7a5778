package publications

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Nudge has relays look at the tables once tx commits.
func Nudge(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, queryNotify)
	return err
}

// QueueNudge is Nudge as a statement of a batch.
func QueueNudge(batch *pgx.Batch) { batch.Queue(queryNotify) }
