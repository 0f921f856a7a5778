package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// DB runs statements: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type DB interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

const (
	fileCampaigns  = 5000                 // campaigns filed in one transaction
	barrierPoll    = 5 * time.Millisecond // between looks at the writer floor
	stateReady     = "ready"
	beforeAnything = ""
)

// Register makes a consumer group known: from now on each append gives it a work item for each
// campaign. A group that is new gets one for every campaign that was there before, so that it
// starts with the first event of each. It is safe to call at every start, from several processes at
// once, and again after a crash.
//
// Register must not run inside a transaction. It waits until appends that began before the group
// was known have ended.
func Register(ctx context.Context, db DB, group string) (err error) {
	defer rows.Explain(&err, "register consumer group %q", group)
	if _, err := db.Exec(ctx, queryRegister, group); err != nil {
		return err
	}
	if _, err := db.Exec(ctx, queryLeaveInline, group); err != nil {
		return err
	}
	var state string
	if err := db.QueryRow(ctx, queryState, group).Scan(&state); err != nil {
		return err
	}
	if state == stateReady {
		return nil
	}
	if err := barrier(ctx, db); err != nil {
		return err
	}
	for cursor := beforeAnything; ; {
		var n int64
		if err := db.QueryRow(ctx, queryFile, group, cursor, fileCampaigns).Scan(&cursor, &n); err != nil {
			return fmt.Errorf("file campaigns: %w", err)
		}
		if n < fileCampaigns {
			break
		}
	}
	if _, err := db.Exec(ctx, queryReady, group); err != nil {
		return err
	}
	return nil
}

// RegisterInline makes a consumer group known whose events are applied by the appends themselves:
// from now on appends give it no work items. Those it has stay until they are applied. It must not
// run inside a transaction, and is as safe to repeat as [Register]. It waits until appends that may
// have enqueued for the group have ended, so that after it the work items there are all there will
// be.
func RegisterInline(ctx context.Context, db DB, group string) (err error) {
	defer rows.Explain(&err, "register consumer group %q as inline", group)
	if _, err := db.Exec(ctx, queryRegisterInline, group); err != nil {
		return err
	}
	return barrier(ctx, db) // also if it is inline already: who made it so may not have waited to the end
}

// barrier waits until every append that may not have seen the group has ended: until none holds the
// writer floor below a position taken now. An append in a REPEATABLE READ transaction sees the
// groups of its snapshot, however old; such a transaction is not waited for.
func barrier(ctx context.Context, db DB) error {
	var now int64
	if err := db.QueryRow(ctx, queryNextPosition).Scan(&now); err != nil {
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

// Complete queues the deletion of campaigns' work items up to a seq each, which have been applied
// in the same transaction.
func Complete(batch *pgx.Batch, group string, campaignIDs []string, upTo []int64) {
	batch.Queue(queryComplete, group, campaignIDs, upTo)
}

// Enqueue queues a work item for each campaign, unless its last event has one: so much is enough to
// bring the campaign to its head.
func Enqueue(batch *pgx.Batch, group string, campaignIDs []string) {
	batch.Queue(queryEnqueue, group, campaignIDs)
}
