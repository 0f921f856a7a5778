package publications

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Names of acts in tidemark.operator_log.
const (
	ActPaused    = "publisher_paused"
	ActResumed   = "publisher_resumed"
	ActReset     = "publisher_reset"
	ActRetried   = "parked_retried"
	ActResolved  = "parked_resolved"
	ActReplaying = "replay_started"
	ActReplayed  = "replay_ended"
)

// Acts lists all acts.
func Acts() []string {
	return []string{ActPaused, ActResumed, ActReset, ActRetried, ActResolved, ActReplaying, ActReplayed}
}

// LogFilter selects records. Empty fields match any.
type LogFilter struct {
	Topic, Publisher, CampaignID string
	Actor                        string
	Acts                         []string
	Before                       int64 // only records before this id; 0: from the newest on
	Limit                        int   // default 100
}

// Record is a row of tidemark.operator_log. Fields that do not apply are empty.
type Record struct {
	ID         int64
	At         time.Time
	Actor      string
	Act        string
	Reason     string
	Topic      string
	Publisher  string
	CampaignID string
	Seq        int64
	Detail     json.RawMessage // an object, or nil

	Way          string // "cli", "api" or "page"; "": a program
	TokenID      int64  // 0: no token
	Address      string // of the client of the API or a page
	DatabaseUser string // the login user of the database
}

// Log lists records, newest first.
func Log(ctx context.Context, db event.Querier, f LogFilter) ([]Record, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Record], "read the log of operators", queryLog,
		f.Topic, f.Publisher, f.CampaignID, f.Actor, f.Acts, f.Before, cmp.Or(f.Limit, 100))
}

// PruneLog deletes up to limit records older than olderThan, which counts as one day at least, and
// ghosts older than 30 days. It returns the number of records.
func PruneLog(ctx context.Context, db event.Querier, olderThan time.Duration, limit int) (n int64, err error) {
	if olderThan <= 0 || limit < 1 {
		return 0, fmt.Errorf("prune the log of operators: %d records older than %s: use a positive age and limit", limit,
			olderThan)
	}
	return rows.One(ctx, db, pgx.RowTo[int64], "prune the log of operators", queryPruneLog, olderThan, limit)
}

// WriteLog writes an act to tidemark.operator_log in the transaction of the act. Parameters that do
// not apply are empty; detail, if not nil, must encode as an object.
func WriteLog(
	ctx context.Context, tx pgx.Tx, act Act, name string, key Key, campaignID string, seq int64, detail any,
) error {
	if act.By == "" {
		return ErrNoActor
	}
	doc, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	return rows.Do(ctx, tx, "", queryRecord, act.logged(name, key, campaignID, seq, string(doc))...)
}

// Note logs an act that happens outside the database, even after ctx has ended.
func Note(
	ctx context.Context, db DB, act Act, name string, key Key, campaign string, seq int64, detail map[string]any,
) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	defer rows.Explain(&err, "write %s to the log", name)
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		return WriteLog(ctx, tx, act, name, key, campaign, seq, detail)
	})
}

// noteTimeout limits the write of an interrupted act's record.
const noteTimeout = 5 * time.Second

// LinkLog adds records to the chain that acts have left out of it, because another session held its
// head. It links some in a statement, and stops while another session holds the head.
func LinkLog(ctx context.Context, db event.Querier) error {
	const what = "link the log of operators"
	for before := int64(-1); ; {
		if _, err := rows.One(ctx, db, pgx.RowTo[int64], what, queryLinkLog); err != nil {
			return err
		}
		left, err := rows.One(ctx, db, pgx.RowTo[int64], what, queryUnlinked)
		if err != nil || left == 0 || left == before {
			return err
		}
		before = left
	}
}
