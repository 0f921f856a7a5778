package lease

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Channel carries the notifications of tidemark.append and [Wake] while a worker waits. The payload names the wait.
const Channel = "tidemark_work"

// Wait asks appends to notify for d. Otherwise they do not: a NOTIFY takes a lock that all commits
// of the server share, and under load no worker waits.
func Wait(ctx context.Context, db DB, d time.Duration) error {
	_, err := rows.Exec(ctx, db, "ask to be notified", queryWait, d.Milliseconds())
	return err
}

// Awake ends the wait that a notification's payload names, so appends stop notifying. Later waits go on.
func Awake(ctx context.Context, db DB, payload string) error {
	wait, err := strconv.ParseInt(payload, 10, 64)
	if err != nil {
		return nil // not our notification; the wait expires
	}
	_, err = rows.Exec(ctx, db, "end the wait", queryAwake, wait)
	return err
}

// Wake notifies waiting workers when tx commits, for acts that create work without an append.
func Wake(ctx context.Context, tx pgx.Tx) error {
	_, err := rows.Exec(ctx, tx, "wake workers", queryWake)
	return err
}
