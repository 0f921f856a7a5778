package publisher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	pruneEvery = time.Hour // about
	pruneRows  = 1000      // in one statement
	pruneMost  = 100       // statements at a time: what is left waits for the next
)

// Execer runs a statement: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// PruneLog deletes up to limit records of operators' acts that are older than olderThan, the oldest first, in one statement. It answers how many: fewer than limit once there
// are no more. Several may prune at once. Relays do so by themselves, see Config.LogRetention.
func PruneLog(ctx context.Context, db Execer, olderThan time.Duration, limit int) (int64, error) {
	if olderThan <= 0 || limit < 1 {
		return 0, fmt.Errorf("prune the log of operators: %d records older than %s: use a positive age and limit", limit, olderThan)
	}
	tag, err := db.Exec(ctx, queryPruneLog, olderThan, limit)
	if err != nil {
		return 0, fmt.Errorf("prune the log of operators: %w", err)
	}
	return tag.RowsAffected(), nil
}

// pruneLog prunes now and then, for the first time some minutes after it begins: replicas do not all do so together.
func (r *Relay) pruneLog(ctx context.Context) {
	for wait := rand.N(pruneEvery); pause(ctx, wait); wait = pruneEvery/2 + rand.N(pruneEvery) {
		n, err := r.prune(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			r.cfg.Logger.WarnContext(ctx, "the log of operators is not pruned", "error", err)
		case n > 0:
			r.cfg.Logger.InfoContext(ctx, "the log of operators is pruned", "rows", n, "older_than", r.cfg.LogRetention)
		}
	}
}

// prune deletes batches until there is nothing left to delete, or enough is done.
func (r *Relay) prune(ctx context.Context) (total int64, err error) {
	for range pruneMost {
		bounded, cancel := context.WithTimeout(ctx, r.cfg.LeaseTTL)
		var n int64
		err := r.db.use(bounded, func(conn *pgxpool.Conn) (err error) {
			n, err = PruneLog(bounded, conn, r.cfg.LogRetention, pruneRows)
			return err
		})
		cancel()
		total += n
		if err != nil || n < pruneRows {
			return total, err
		}
	}
	return total, nil
}
