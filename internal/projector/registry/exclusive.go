package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

const (
	// exclusiveAttempts is how often an act tries to get the registry's lock, about 12 s in all. Waits
	// double from exclusiveWait, outside the queue, so others wait a tenth of the time.
	exclusiveAttempts = 10
	exclusiveWait     = 100 * time.Millisecond
	exclusiveWaitMost = 3 * time.Second

	// patiently means unlimited attempts, for registrations.
	patiently = 0

	// holders names sessions h by their row a of pg_stat_activity. A prepared transaction has no row.
	holders = `coalesce(string_agg(DISTINCT CASE WHEN coalesce(h.pid, 0) = 0 THEN 'a prepared transaction'
			ELSE format('pid %s (%s)', h.pid, concat_ws(', ',
			'application "' || coalesce(a.application_name, '') || '"', a.state,
			'in a transaction for ' || extract(epoch FROM clock_timestamp() - a.xact_start)::integer || ' s')) END,
			' and '), '')`
)

// errMoved means that a projection moved to another consumer group during an act.
var errMoved = errors.New("the projection has just been registered with another consumer group: try again")

// exclusive changes the registry of a consumer group while no group of events is being applied.
type exclusive struct {
	db       Beginner
	group    string
	attempts int          // before it gives up; [patiently]: never
	log      *slog.Logger // logs the sessions it waits for; nil: only the last attempt's error names them
}

// do runs what in a transaction that holds the group's registry lock. It waits up to 300 ms for
// each lock, then waits outside the queue and retries.
func (e exclusive) do(ctx context.Context, what func(pgx.Tx) error) error {
	wait := exclusiveWait
	for attempt := 1; ; attempt++ {
		locked := false
		err := pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
			if err := rows.Do(ctx, tx, "", QueryExclusivePatience); err != nil {
				return err
			}
			if err := rows.Do(ctx, tx, "", queryRegistryExclusive, e.group); err != nil {
				return err
			}
			locked = true
			return what(tx)
		})
		if !failure.IsLockTimeout(err) {
			return err
		}
		by := ""
		if !locked {
			by = e.holders(ctx)
		}
		if attempt == e.attempts {
			if by == "" {
				return err
			}
			return fmt.Errorf("the registry of consumer group %q is in use by %s: %w", e.group, by, err)
		}
		if e.log != nil && (wait == exclusiveWaitMost || attempt == 2) {
			e.log.WarnContext(ctx, "waiting for the registry, others go on meanwhile", "consumer_group", e.group,
				"in_use_by", by, "error", err)
		}
		if !loops.Sleep(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, exclusiveWaitMost)
	}
}

// holders names the sessions that hold the registry's lock, or returns "" if it cannot read them.
func (e exclusive) holders(ctx context.Context) string {
	by, _ := rows.One(ctx, e.db, pgx.RowTo[string], "", queryRegistryHolders, e.group)
	return by
}

// Exclusively runs an act on a projection, by name, under the registry's lock. An unregistered
// projection has no group and nothing to wait for.
func Exclusively(ctx context.Context, db Beginner, name string, what func(pgx.Tx) error) error {
	sets := []string{name, NextTables.Of(name), PreviousTables.Of(name)}
	group, err := rows.One(ctx, db, pgx.RowTo[string], "", queryGroupOf, sets)
	if err != nil {
		return err
	}
	return exclusive{db: db, group: group, attempts: exclusiveAttempts}.do(ctx, func(tx pgx.Tx) error {
		var now string
		if err := tx.QueryRow(ctx, queryGroupOf, sets).Scan(&now); err != nil {
			return err
		}
		if now != group && now != "" {
			return errMoved
		}
		return what(tx)
	})
}

// Beginner begins transactions: a *pgxpool.Pool or a *pgx.Conn.
type Beginner interface {
	event.Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Awoken is the cause of the end of a sleep, for metrics.
type Awoken string

// The causes.
const (
	Elapsed  Awoken = "polled"
	Notified Awoken = "notified" // by an append
	Finished Awoken = "released" // a worker released a campaign that was in the way
)
