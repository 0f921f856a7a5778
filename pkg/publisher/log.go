package publisher

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// What operators do, as tidemark.operator_log names it.
const (
	ActPaused    = "publication_paused"
	ActResumed   = "publication_resumed"
	ActReset     = "publication_reset"
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
	rows, err := db.Query(ctx, queryLog, f.Topic, f.Publisher, f.CampaignID, f.Actor, f.Acts, f.Before, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("read the log of operators: %w", err)
	}
	records, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Record])
	if err != nil {
		return nil, fmt.Errorf("read the log of operators: %w", err)
	}
	return records, nil
}
