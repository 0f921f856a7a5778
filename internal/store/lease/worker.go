package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
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
		queryBeat, k.Owner, k.Group, host, pid, held, applied, k.Knows, k.TTL, k.Statements)
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
	return rows.Do(ctx, db, "forget worker", queryForget, k.Owner)
}

// Workers lists the workers of all groups that have a record, oldest first.
func Workers(ctx context.Context, db DB) ([]Worker, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Worker], "list workers", queryWorkers)
}

// Versions returns a group's versions of projections, by name, from workers seen within a minute.
func Versions(ctx context.Context, db DB, group string) (map[string][]int, error) {
	return rows.ByKey[string, int](ctx, db, "list versions", queryVersions, group)
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
	return rows.Do(ctx, db, fmt.Sprintf("drop the duty %q", name), queryDropDuty, name, owner)
}

// Channel carries the notifications of tidemark.append and [Wake] while a worker waits. The payload names the wait.
const Channel = "tidemark_work"

// Wait asks appends to notify for d. Otherwise they do not: a NOTIFY takes a lock that all commits
// of the server share, and under load no worker waits.
func Wait(ctx context.Context, db DB, d time.Duration) error {
	return rows.Do(ctx, db, "ask to be notified", queryWait, d.Milliseconds())
}

// Awake ends the wait that a notification's payload names, so appends stop notifying. Later waits go on.
func Awake(ctx context.Context, db DB, payload string) error {
	wait, err := strconv.ParseInt(payload, 10, 64)
	if err != nil {
		return nil // not our notification; the wait expires
	}
	return rows.Do(ctx, db, "end the wait", queryAwake, wait)
}

// Wake notifies waiting workers when tx commits, for acts that create work without an append.
func Wake(ctx context.Context, tx pgx.Tx) error {
	return rows.Do(ctx, tx, "wake workers", queryWake)
}

// ChannelApplied carries the notifications of [Tell].
const ChannelApplied = "tidemark_applied"

// Tell queues the notification of programs that wait for projections, if there are any. Queue it last:
// a program that begins to wait after it is not notified.
func Tell(batch *pgx.Batch) { batch.Queue(queryTell) }

const (
	// UpgradeTime is how long a group's workers may differ during a rolling upgrade.
	UpgradeTime = 10 * time.Minute

	// namedWorkers is how many workers a text names.
	namedWorkers = 3
)

// Mixture is a consumer group whose workers have different projections. They hand campaigns over to
// each other, which costs rows of tidemark.failed and a delay of a second.
type Mixture struct {
	Group   string
	Lacking []Lacking
	Since   time.Time // start of the later of the first two workers that differ
}

// Lacking is a projection and the workers of its group that have it in no version.
type Lacking struct {
	Projection string
	Workers    []Worker // ordered by start, oldest first
}

// Mixtures returns the groups whose workers have different projections, ordered by name. It ignores
// drained workers. Pass live workers only.
func Mixtures(workers []Worker) (mixtures []Mixture) {
	groups := map[string][]Worker{}
	for _, w := range workers {
		if w.DrainedBy == "" {
			groups[w.ConsumerGroup] = append(groups[w.ConsumerGroup], w)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		all := groups[group]
		slices.SortStableFunc(all, func(a, b Worker) int { return a.StartedAt.Compare(b.StartedAt) })
		having := map[string][]Worker{}
		for _, w := range all {
			for name := range w.Knows {
				having[name] = append(having[name], w)
			}
		}
		m := Mixture{Group: group}
		for _, name := range slices.Sorted(maps.Keys(having)) {
			if len(having[name]) == len(all) {
				continue
			}
			l := Lacking{Projection: name, Workers: slices.DeleteFunc(slices.Clone(all), func(w Worker) bool {
				return w.Knows[name] != nil
			})}
			m.Lacking = append(m.Lacking, l)
			since := l.Workers[0].StartedAt
			if other := having[name][0].StartedAt; other.After(since) {
				since = other
			}
			if m.Since.IsZero() || since.Before(m.Since) {
				m.Since = since
			}
		}
		if len(m.Lacking) > 0 {
			mixtures = append(mixtures, m)
		}
	}
	return mixtures
}

// Upgrade reports whether the mixture may be a rolling upgrade: it is younger than ten minutes.
func (m Mixture) Upgrade(now time.Time) bool { return now.Sub(m.Since) < UpgradeTime }

// String names the workers that lack projections.
func (m Mixture) String() string {
	parts := make([]string, len(m.Lacking))
	for i, l := range m.Lacking {
		var workers []string
		for _, w := range l.Workers[:min(len(l.Workers), namedWorkers)] {
			workers = append(workers, fmt.Sprintf("%s (process %d)", w.Host, w.PID))
		}
		parts[i] = fmt.Sprintf("%s is not in %s", l.Projection, strings.Join(workers, ", "))
		if more := len(l.Workers) - namedWorkers; more > 0 {
			parts[i] += fmt.Sprintf(" and %d more", more)
		}
	}
	return "its workers do not have the same projections: " + strings.Join(parts, "; ")
}

// Remedy returns the ways to end a mixture.
func (m Mixture) Remedy() string {
	return "give each program a consumer group of its own (TIDEMARK_CONSUMER_GROUP), or all of them the same " +
		"projections; a rolling upgrade ends it by itself"
}
