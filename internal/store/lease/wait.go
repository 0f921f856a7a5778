package lease

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Channel is where tidemark.append and [Wake] notify while a worker waits. The payload names the wait.
const Channel = "tidemark_work"

// Wait asks appends to notify for so long. Without it they do not: under load no worker waits, and a
// NOTIFY costs a lock that all commits of the server share.
func Wait(ctx context.Context, db DB, d time.Duration) error {
	_, err := rows.Exec(ctx, db, "ask to be notified", queryWait, d.Milliseconds())
	return err
}

// Awake ends the wait that a notification's payload names, so that appends stop notifying. A wait begun since goes on.
func Awake(ctx context.Context, db DB, payload string) error {
	wait, err := strconv.ParseInt(payload, 10, 64)
	if err != nil {
		return nil // not a notification of ours; the wait ends by itself
	}
	_, err = rows.Exec(ctx, db, "end the wait", queryAwake, wait)
	return err
}

// Wake wakes workers that wait, when tx commits: for acts that give them something to do which no append brings.
func Wake(ctx context.Context, tx pgx.Tx) error {
	_, err := rows.Exec(ctx, tx, "wake workers", queryWake)
	return err
}
