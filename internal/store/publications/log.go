package publications

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// What operators do, as tidemark.operator_log names it.
const (
	ActPaused    = "publisher_paused"
	ActResumed   = "publisher_resumed"
	ActReset     = "publisher_reset"
	ActRetried   = "parked_retried"
	ActResolved  = "parked_resolved"
	ActTestSent  = "test_sent"
	ActReplaying = "replay_started"
	ActReplayed  = "replay_ended"
)

const defaultRecords = 100

// Acts lists them.
func Acts() []string {
	return []string{ActPaused, ActResumed, ActReset, ActRetried, ActResolved, ActTestSent, ActReplaying, ActReplayed}
}

// LogFilter says which acts are meant. Empty fields mean any.
type LogFilter struct {
	Topic, Publisher, CampaignID string
	Actor                        string
	Acts                         []string
	Before                       int64 // the id of a record: only those before it; 0: from the newest on
	Limit                        int   // default 100
}

// Record is an act of an operator: a row of tidemark.operator_log. What an act was not about is empty.
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

	Way          string // "cli", "api" or "page"; "" by a program
	TokenID      int64  // 0: without a token
	Address      string // of the client of the API or a page
	DatabaseUser string // that was logged in to the database
}

// Log lists what operators did, newest first.
func Log(ctx context.Context, db journal.Querier, f LogFilter) ([]Record, error) {
	if f.Limit == 0 {
		f.Limit = defaultRecords
	}
	return rows.All(ctx, db, pgx.RowToStructByPos[Record], "read the log of operators",
		queryLog, f.Topic, f.Publisher, f.CampaignID, f.Actor, f.Acts, f.Before, f.Limit)
}

// PruneLog deletes up to limit records older than olderThan, and than the day that the database
// keeps at least, and ghosts of more than 30 days ago. It answers how many records.
func PruneLog(ctx context.Context, db journal.Querier, olderThan time.Duration, limit int) (n int64, err error) {
	if olderThan <= 0 || limit < 1 {
		return 0, fmt.Errorf("prune the log of operators: %d records older than %s: use a positive age and limit", limit,
			olderThan)
	}
	return rows.One(ctx, db, pgx.RowTo[int64], "prune the log of operators", queryPruneLog, olderThan, limit)
}

// WriteLog writes an act to tidemark.operator_log in the transaction in which it happens. What it
// was not about is empty; detail, if there is one, becomes an object.
func WriteLog(
	ctx context.Context, tx pgx.Tx, act Act, name string, key Key, campaignID string, seq int64, detail any,
) error {
	if act.By == "" {
		return ErrNobody
	}
	doc, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, queryRecord, act.logged(name, key, campaignID, seq, string(doc))...)
	return err
}

// Note writes an act that is not done in the database to the log, also once ctx has ended.
func Note(
	ctx context.Context, db DB, act Act, name string, key Key, campaign string, seq int64, detail map[string]any,
) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		return WriteLog(ctx, tx, act, name, key, campaign, seq,
			detail)
	})
	if err != nil {
		return fmt.Errorf("write %s to the log: %w", name, err)
	}
	return nil
}

// noteTimeout is how long an act that was interrupted may still take to be written down.
const noteTimeout = 5 * time.Second
