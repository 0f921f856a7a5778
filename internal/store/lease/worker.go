package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Worker is a worker's own record, renewed about once a second.
type Worker struct {
	Owner         string
	ConsumerGroup string
	Host          string
	PID           int
	StartedAt     time.Time
	SeenAt        time.Time // a worker not seen for a few seconds has stopped or is cut off
	CampaignsHeld int
	EventsApplied int64            // since it started
	DrainedBy     string           // the operator who drained it; empty: not drained
	Knows         map[string][]int // versions of projections that its program has, by name
}

// Beat records that the owner lives, with the campaigns it holds and the events applied since its
// start. drained reports whether it must claim nothing more (see [Drain]).
func (k Keeper) Beat(ctx context.Context, db DB, host string, pid, held int, applied int64) (drained bool, err error) {
	return rows.One(ctx, db, pgx.RowTo[bool], "record worker",
		queryBeat, k.Owner, k.Group, host, pid, held, applied, k.Knows, k.TTL)
}

// Drain tells a worker to finish its work and claim nothing more, until [Undrain] or its end. The
// worker notices within about a second. Drain returns false if there is no such worker.
func Drain(ctx context.Context, db DB, owner, by string) (bool, error) {
	what := fmt.Sprintf("drain worker %q", owner)
	if by == "" {
		return false, errors.New(what + ": name who does it")
	}
	n, err := rows.Exec(ctx, db, what, queryDrain, owner, by)
	return n > 0, err
}

// Undrain lets a drained worker claim again. It returns false if there is no such worker.
func Undrain(ctx context.Context, db DB, owner string) (bool, error) {
	n, err := rows.Exec(ctx, db, fmt.Sprintf("undrain worker %q", owner), queryDrain, owner, "")
	return n > 0, err
}

// Forget removes the owner's record.
func (k Keeper) Forget(ctx context.Context, db DB) error {
	_, err := rows.Exec(ctx, db, "forget worker", queryForget, k.Owner)
	return err
}

// Workers lists the workers of all groups that have a record, oldest first.
func Workers(ctx context.Context, db DB) ([]Worker, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Worker], "list workers", queryWorkers)
}

// Versions returns a group's versions of projections, by name, from workers seen within a minute.
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

// TakeDuty takes or renews a named duty for ttl and reports whether the owner has it. One process
// at a time has a duty; while another has it, nothing is written. It does not fence: use it only
// for work that may rarely run twice.
func TakeDuty(ctx context.Context, db DB, name, owner string, ttl time.Duration) (bool, error) {
	n, err := rows.Exec(ctx, db, fmt.Sprintf("take the duty %q", name), queryTakeDuty, name, owner, ttl)
	return n == 1, err
}

// DropDuty gives the duty up before it expires. It does nothing if the owner does not have it.
func DropDuty(ctx context.Context, db DB, name, owner string) error {
	_, err := rows.Exec(ctx, db, fmt.Sprintf("drop the duty %q", name), queryDropDuty, name, owner)
	return err
}
