package inbox

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// prune deletes up to limit expired marks, oldest first, and returns their number: fewer than limit
// if no more are left. Concurrent calls are safe.
func prune(ctx context.Context, db *pgxpool.Pool, limit int) (int64, error) {
	tag, err := db.Exec(ctx, queryPrune, limit)
	return tag.RowsAffected(), err
}

// Pruner deletes expired marks periodically. Any number of processes may run one.
type Pruner struct {
	DB       *pgxpool.Pool // required
	Interval time.Duration // between runs; default a minute
	Batch    int           // marks deleted by one statement; default 1000
	Logger   *slog.Logger  // logs failures; default none
}

// Run prunes until ctx ends, and then returns nil. It logs a failed statement and retries it at the
// next run. It returns an error only for invalid settings.
func (p Pruner) Run(ctx context.Context) error {
	p.Interval = cmp.Or(p.Interval, time.Minute)
	p.Batch = cmp.Or(p.Batch, 1000)
	p.Logger = cmp.Or(p.Logger, slog.New(slog.DiscardHandler))
	if p.DB == nil || p.Interval < 0 || p.Batch < 0 {
		return fmt.Errorf("prune the inbox: DB is required, Interval is %s and Batch %d, neither may be negative",
			p.Interval, p.Batch)
	}
	tick := time.NewTicker(p.Interval)
	defer tick.Stop()
	for {
		for full := true; full && ctx.Err() == nil; {
			n, err := prune(ctx, p.DB, p.Batch)
			if err != nil && ctx.Err() == nil {
				p.Logger.WarnContext(ctx, "cannot prune the inbox", "error", err)
			}
			full = n == int64(p.Batch)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
