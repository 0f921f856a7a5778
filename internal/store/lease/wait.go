package lease

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Channel is where tidemark.append and [Wake] notify while a worker waits. The payload names the wait.
const Channel = "tidemark_work"

// Wait asks appends to notify for so long. Without it they do not: under load no worker waits, and a
// NOTIFY costs a lock that all commits of the server share.
func Wait(ctx context.Context, db DB, d time.Duration) error {
	if _, err := db.Exec(ctx, queryWait, d.Milliseconds()); err != nil {
		return fmt.Errorf("ask to be notified: %w", err)
	}
	return nil
}

// Awake ends the wait that a notification's payload names, so that appends stop notifying. A wait begun since goes on.
func Awake(ctx context.Context, db DB, payload string) error {
	wait, err := strconv.ParseInt(payload, 10, 64)
	if err != nil {
		return nil // not a notification of ours; the wait ends by itself
	}
	if _, err := db.Exec(ctx, queryAwake, wait); err != nil {
		return fmt.Errorf("end the wait: %w", err)
	}
	return nil
}

// Wake wakes workers that wait, when tx commits: for acts that give them something to do which no append brings.
func Wake(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, queryWake); err != nil {
		return fmt.Errorf("wake workers: %w", err)
	}
	return nil
}
