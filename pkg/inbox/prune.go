package inbox

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// prune deletes up to limit marks that have expired, the oldest first. It answers how many: fewer than
// limit once there are no more. Several may prune at once.
func prune(ctx context.Context, db *pgxpool.Pool, limit int) (int64, error) {
	tag, err := db.Exec(ctx, queryPrune, limit)
	return tag.RowsAffected(), err
}

// Pruner prunes again and again. Any number of processes may run one.
type Pruner struct {
	DB       *pgxpool.Pool // required
	Interval time.Duration // between looks; default a minute
	Batch    int           // marks deleted by one statement; default 1000
	Logger   *slog.Logger  // told of failures; default none
}

// Run prunes until ctx ends, and returns nil then. A statement that fails is logged and tried again
// at the next look. It returns an error only for settings that cannot work.
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
