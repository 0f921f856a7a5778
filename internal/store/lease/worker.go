package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
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
	EventsApplied int64            // since it started
	DrainedBy     string           // who has told it to take nothing more; empty: no operator has
	Knows         map[string][]int // versions of projections that it has the code of, by name
}

// Beat records that the owner lives, with the campaigns it holds and the events it has applied
// since it started, and answers whether it is to take nothing more (see [Drain]).
func (k Keeper) Beat(ctx context.Context, db DB, host string, pid, held int, applied int64) (drained bool,
	err error,
) {
	if err := db.QueryRow(ctx, queryBeat, k.Owner, k.Group, host, pid, held, applied, k.Knows,
		k.TTL).Scan(&drained); err != nil {
		return false, fmt.Errorf("record worker: %w", err)
	}
	return drained, nil
}

// Drain tells a worker to finish what it has and claim nothing more, until [Undrain] or its end; it
// notices within about a second. It answers false if there is no such worker.
func Drain(ctx context.Context, db DB, owner, by string) (bool, error) {
	if by == "" {
		return false, fmt.Errorf("drain worker %q: name who does it", owner)
	}
	tag, err := db.Exec(ctx, queryDrain, owner, by)
	if err != nil {
		return false, fmt.Errorf("drain worker %q: %w", owner, err)
	}
	return tag.RowsAffected() > 0, nil
}

// Undrain has a worker that was drained claim again. It answers false if there is no such worker.
func Undrain(ctx context.Context, db DB, owner string) (bool, error) {
	tag, err := db.Exec(ctx, queryDrain, owner, "")
	if err != nil {
		return false, fmt.Errorf("undrain worker %q: %w", owner, err)
	}
	return tag.RowsAffected() > 0, nil
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
	return rows.All(ctx, db, pgx.RowToStructByPos[Worker], "list workers", queryWorkers)
}

// Versions answers the versions of projections that workers of a group have the code of, by name:
// of those seen within a minute.
func Versions(ctx context.Context, db DB, group string) (map[string][]int, error) {
	found := map[string][]int{}
	var name string
	var version int
	err := rows.Each(ctx, db, []any{&name, &version}, func() error {
		found[name] = append(found[name], version)
		return nil
	}, "list versions", queryVersions, group)
	return found, err
}
