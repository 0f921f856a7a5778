package publications

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Act names the operator and the reason. The act's transaction writes it to tidemark.operator_log.
type Act struct {
	By     string // required
	Reason string

	Way     string // "cli", "api" or "page"; default "": a program
	TokenID int64  // default 0: no token
	Address string // of the client; default "": none
}

// logged returns the arguments of queryRecord.
func (a Act) logged(name string, key Key, campaignID string, seq int64, doc any) []any {
	return []any{a.By, name, a.Reason, key.Topic, key.Publisher, campaignID, seq, doc, a.Way, a.TokenID, a.Address}
}

// Errors of acts.
var (
	// ErrNotFound: there is no such pair, or the filter matches nothing parked.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the pair's status does not allow the act.
	ErrConflict = errors.New("conflict")
	// ErrNoActor: By is empty.
	ErrNoActor = errors.New("the operator's name is missing: the log records it")
)

// DB begins transactions: a *pgxpool.Pool, a *pgx.Conn, or a pgx.Tx (the act gets a savepoint).
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	event.Querier
}

// Suspend pauses a pair for d, or until it is resumed if d is 0. The current batch finishes. A new
// pause replaces an earlier one. Errors: [ErrNotFound]; [ErrConflict] for a failed pair.
func Suspend(ctx context.Context, db DB, key Key, d time.Duration, act Act) error {
	return change(ctx, db, key, act, ActPaused, map[string]any{"for": d.String()},
		func(ctx context.Context, tx pgx.Tx, status string) error {
			if status == "FAILED" {
				return fmt.Errorf("pause %s: it has failed: reset it first: %w", key, ErrConflict)
			}
			return rows.Do(ctx, tx, "", queryPause, key.Topic, key.Publisher, act.By, act.Reason, d.Microseconds())
		})
}

// Resume ends a pause. Errors: [ErrNotFound]; [ErrConflict] for a pair that is not paused.
func Resume(ctx context.Context, db DB, key Key, act Act) error {
	return change(ctx, db, key, act, ActResumed, nil, func(ctx context.Context, tx pgx.Tx, status string) error {
		if status != "PAUSED" {
			return fmt.Errorf("resume %s: it is %s, not paused: %w", key, status, ErrConflict)
		}
		return rows.Do(ctx, tx, "", queryResume, key.Topic, key.Publisher)
	})
}

// ResetTo is the new place of a pair for [Reset]. The zero value keeps its position.
type ResetTo struct {
	Position *int64    // after this position
	Time     time.Time // before the first event recorded at this time or later
	DryRun   bool      // change nothing
}

// ResetResult is what a [Reset] did, or would do in a dry run.
type ResetResult struct {
	From, To  int64
	Sent      int64 // events of the journal between the two that are published again, before the topic's filter
	Skipped   int64 // events of the journal between the two that are never published, before the topic's filter
	Forgotten int64 // parked events that are deleted because they are read again
}

// Reset makes a pair active and clears its errors. It may move it back, so events are published
// again, or ahead, so events are skipped. Campaigns parked at an event up to the new position stay
// parked. Errors: [ErrNotFound]; an error for a position that the journal has not assigned.
func Reset(ctx context.Context, db DB, key Key, to ResetTo, act Act) (ResetResult, error) {
	var result ResetResult
	target := to.Position
	if target == nil && !to.Time.IsZero() {
		position, err := feed.PositionAt(ctx, db, to.Time)
		if err != nil {
			return result, err
		}
		target = &position
	}
	detail := map[string]any{}
	undo := errors.New("dry run")
	err := change(ctx, db, key, act, ActReset, detail, func(ctx context.Context, tx pgx.Tx, _ string) (err error) {
		var last int64
		if err := tx.QueryRow(ctx, queryPlace, key.Topic, key.Publisher).Scan(&result.From, &last); err != nil {
			return err
		}
		if result.To = result.From; target != nil {
			result.To = *target
		}
		if result.To < 0 || result.To > last {
			return fmt.Errorf("reset %s to position %d: the journal has positions from 0 to %d", key, result.To, last)
		}
		if err := tx.QueryRow(ctx, queryBetween, min(result.From, result.To),
			max(result.From, result.To)).Scan(&result.Sent); err != nil {
			return err
		}
		if result.To > result.From {
			result.Sent, result.Skipped = 0, result.Sent
		}
		if result.To < result.From {
			result.Forgotten, err = rows.Exec(ctx, tx, "", queryForgetParked, key.Topic, key.Publisher, result.To)
			if err != nil {
				return err
			}
		}
		if err := rows.Do(ctx, tx, "", queryReset, key.Topic, key.Publisher, result.To); err != nil {
			return err
		}
		detail["from"], detail["to"], detail["forgotten"] = result.From, result.To, result.Forgotten
		if to.DryRun {
			return undo
		}
		return nil
	})
	if errors.Is(err, undo) {
		err = nil
	}
	return result, err
}

// change locks a pair's row, runs do, and writes the act to the log.
func change(
	ctx context.Context, db DB, key Key, act Act, name string, detail map[string]any,
	do func(ctx context.Context, tx pgx.Tx, status string) error,
) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		var status string
		err := tx.QueryRow(ctx, queryLock, key.Topic, key.Publisher).Scan(&status)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("publication %s: %w", key, ErrNotFound)
		}
		if err == nil {
			err = do(ctx, tx, status)
		}
		if err != nil {
			return err
		}
		if err := WriteLog(ctx, tx, act, name, key, "", 0, detail); err != nil {
			return err
		}
		return rows.Do(ctx, tx, "", queryNotify)
	})
}

// QueueNotify wakes the relays once the batch's transaction commits.
func QueueNotify(batch *pgx.Batch) { batch.Queue(queryNotify) }
