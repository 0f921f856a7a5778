package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// DB runs statements: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type DB interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Group is a registered consumer group.
type Group struct {
	Name string
	// "ready"; "filing" while older campaigns are being filed; "inline" if appends apply the events, not
	// workers; "across" if all projections are across campaigns, which need no work items
	State        string
	RegisteredAt time.Time
}

// Groups lists the consumer groups, ordered by name.
func Groups(ctx context.Context, db event.Querier) ([]Group, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Group], "list consumer groups", queryGroups)
}

const (
	fileCampaigns = 5000                 // campaigns filed in one transaction
	barrierPoll   = 5 * time.Millisecond // between looks at the writer floor
)

// Register makes a consumer group known: from now on each append enqueues a work item for it. A new
// group also gets one for every existing campaign, so it starts with the first event of each.
// Register is safe to call at every start, from several processes at once, and again after a crash.
//
// Do not call Register in a transaction. It waits for appends that began before the group was known.
func Register(ctx context.Context, db DB, group string) (err error) {
	defer rows.Explain(&err, "register consumer group %q", group)
	if _, err := db.Exec(ctx, queryRegister, group); err != nil {
		return err
	}
	if _, err := db.Exec(ctx, queryEnqueues, group); err != nil {
		return err
	}
	state, err := rows.One(ctx, db, pgx.RowTo[string], "", queryState, group)
	if err != nil || state == "ready" {
		return err
	}
	if err := barrier(ctx, db); err != nil {
		return err
	}
	cursor := ""
	for n := fileCampaigns; n == fileCampaigns; {
		if err := db.QueryRow(ctx, queryFile, group, cursor, fileCampaigns).Scan(&cursor, &n); err != nil {
			return fmt.Errorf("file campaigns: %w", err)
		}
	}
	return rows.Do(ctx, db, "", queryReady, group)
}

// RegisterInline makes a consumer group known whose events the appends themselves apply: from now
// on appends enqueue nothing for it. Existing work items stay until they are applied. It must not
// run inside a transaction, and is as safe to repeat as [Register]. It waits for appends that may
// still enqueue for the group, so no work items are added after it returns.
func RegisterInline(ctx context.Context, db DB, group string) (err error) {
	defer rows.Explain(&err, "register consumer group %q as inline", group)
	if _, err := db.Exec(ctx, queryRegisterInline, group); err != nil {
		return err
	}
	return barrier(ctx, db) // also if already inline: the earlier caller may not have waited to the end
}

// RegisterAcross makes a consumer group known whose projections are all across campaigns: appends
// enqueue nothing for it, until [Register] is called. A group that is known stays as it is.
func RegisterAcross(ctx context.Context, db DB, group string) error {
	return rows.Do(ctx, db, fmt.Sprintf("register consumer group %q", group), queryRegisterAcross, group)
}

// barrier waits until every append that may not have seen the group has ended: until none holds the
// writer floor below a position taken now. It does not cover appends in a REPEATABLE READ
// transaction, which see the groups of their snapshot, however old.
func barrier(ctx context.Context, db DB) error {
	now, err := rows.One(ctx, db, pgx.RowTo[int64], "", queryNextPosition)
	if err != nil {
		return err
	}
	for {
		floor, err := feed.Floor(ctx, db)
		if err != nil {
			return err
		}
		if floor >= now {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(barrierPoll):
		}
	}
}

// Complete queues the deletion of campaigns' work items, from the checkpoint of each up to a seq, in
// the transaction that applied them. If the two are equal, it deletes all items up to there.
func Complete(batch *pgx.Batch, group string, campaignIDs []string, from, upTo []int64) {
	batch.Queue(queryComplete, group, campaignIDs, from, upTo)
}

// Enqueue queues one work item per campaign, which brings it to its head, unless its last event has one.
func Enqueue(batch *pgx.Batch, group string, campaignIDs []string) {
	batch.Queue(queryEnqueue, group, campaignIDs)
}

// ErrInUse is returned by [Unregister] for a group that has projections.
var ErrInUse = errors.New("consumer group is in use")

// ErrNotRegistered is returned by [Unregister] for an unknown group.
var ErrNotRegistered = errors.New("consumer group is not registered")

const unregisterRows = 10_000

// Unregister ends a consumer group. Appends enqueue nothing more for it; its work items, leases
// with their checkpoints, and pauses are deleted. A later group of the same name starts with the
// first event of every campaign. by is required and stands in the failure log, with the optional
// reason. Unregister returns [ErrInUse] if the group has projections: remove them first
// (rebuild.Remove). Running workers lose what they are applying and find no more work; stop them,
// or they register the group again at their next start.
//
// Unregister must not run inside a transaction. It waits until appends that began while the group
// was known have ended. If it is interrupted, call it again.
func Unregister(ctx context.Context, db DB, group, by, reason string) (err error) {
	defer rows.Explain(&err, "unregister consumer group %q", group)
	if by == "" {
		return errors.New("name who does it")
	}
	var projections int
	var example string
	if err := db.QueryRow(ctx, queryGroupProjections, group).Scan(&projections, &example); err != nil {
		return err
	}
	if projections > 0 {
		return fmt.Errorf("%w: it has %d projections, %s among them: remove them first", ErrInUse, projections, example)
	}
	deleted, err := rows.Exec(ctx, db, "", queryUnregister, group, by, reason)
	if err != nil {
		return err
	}
	if err := barrier(ctx, db); err != nil {
		return err
	}
	// Work items first: a claim that finds none creates no lease.
	for _, query := range []string{queryDropItems, queryDropLeases, queryDropCrashes, queryDropPauses} {
		for n := int64(unregisterRows); n == unregisterRows; {
			if n, err = rows.Exec(ctx, db, "", query, group, unregisterRows); err != nil {
				return err
			}
			deleted += n
		}
	}
	if deleted == 0 {
		return ErrNotRegistered
	}
	return nil
}
