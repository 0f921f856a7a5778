package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Worker is what a worker says of itself about once a second.
type Worker struct {
	Owner         string
	ConsumerGroup string
	Host          string
	PID           int
	StartedAt     time.Time
	SeenAt        time.Time // a worker not seen for a few seconds is gone or cut off
	CampaignsHeld int
	EventsApplied int64 // since it started
}

// Beat records that the owner lives, with the campaigns it holds and the events it has applied since it started.
func (k Keeper) Beat(ctx context.Context, db DB, host string, pid, held int, applied int64) error {
	if _, err := db.Exec(ctx, queryBeat, k.Owner, k.Group, host, pid, held, applied); err != nil {
		return fmt.Errorf("record worker: %w", err)
	}
	return nil
}

// Forget removes the owner's record.
func (k Keeper) Forget(ctx context.Context, db DB) error {
	if _, err := db.Exec(ctx, queryForget, k.Owner); err != nil {
		return fmt.Errorf("forget worker: %w", err)
	}
	return nil
}

// Workers lists the workers of all groups that have a record, oldest first.
func Workers(ctx context.Context, db DB) ([]Worker, error) {
	rows, err := db.Query(ctx, queryWorkers)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	workers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Worker])
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	return workers, nil
}
