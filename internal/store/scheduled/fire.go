package scheduled

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Channel is the notification channel on which appends wake sleeping workers.
const Channel = "tidemark_scheduled"

// mostAppends is the maximum number of appends in one transaction.
const mostAppends = 500

// Place is an append in the order in which they are made.
type Place struct {
	At time.Time // of the attempt
	ID int64
}

// columns returns the place as arguments of statements; nil: before the first append.
func (p *Place) columns() (at *time.Time, id int64) {
	if p == nil {
		return nil, 0
	}
	return &p.At, p.ID
}

// Look is how to look for due appends.
type Look struct {
	After    *Place        // only behind this one; nil: from the beginning
	Skip     []string      // not of these campaigns
	Campaign string        // only of this campaign, and wait up to 300 ms for its lock
	Sleep    time.Duration // how long the caller sleeps afterwards, at most; 0: it does not
	Listens  bool          // an append that is due before the end of the sleep is to notify
}

// Fired is the result of a look.
type Fired struct {
	Appends int64    // made
	Refused int64    // to be tried again
	Held    int64    // due, but a caller is cancelling them or one before them
	Busy    []string // campaigns with due appends that an open transaction has locked
	More    bool     // there may be more behind After
	After   *Place
	Sleep   time.Duration // time to the next due append, at most Look.Sleep
}

// Fire makes due appends, in a transaction of its own that takes one round trip. So a caller that
// stops in the middle holds no locks.
func Fire(ctx context.Context, pool *pgxpool.Pool, look Look) (fired Fired, err error) {
	at, id := look.After.columns()
	batch := &pgx.Batch{}
	batch.Queue(queryBegin)
	batch.Queue(queryFire, mostAppends, look.Campaign, at, id, look.Skip, look.Sleep, look.Listens).QueryRow(
		func(row pgx.Row) error {
			var after *time.Time
			var last *int64
			err := row.Scan(&fired.Appends, &fired.Refused, &fired.Held, &fired.Busy, &fired.More, &after, &last,
				&fired.Sleep)
			if after != nil {
				fired.After = &Place{*after, *last}
			}
			return err
		})
	batch.Queue(queryCommit)
	if err := pool.SendBatch(ctx, batch).Close(); err != nil {
		return Fired{}, fmt.Errorf("make due appends: %w", err)
	}
	return fired, nil
}
