package publisher

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/publisher/internal/pace"
)

const (
	pruneEvery = time.Hour // about
	pruneRows  = 1000      // in one statement
	pruneMost  = 100       // statements at a time: what is left waits for the next
)

// pruner deletes what is older than it is kept.
type pruner struct{ *base }

// pruneLog prunes now and then, for the first time some minutes after it begins: replicas do not all do so together.
func (p *pruner) pruneLog(ctx context.Context) {
	for wait := rand.N(pruneEvery); pace.Wait(ctx, wait); wait = pruneEvery/2 + rand.N(pruneEvery) {
		n, err := p.prune(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			p.cfg.Logger.WarnContext(ctx, "the log of operators is not pruned", "error", err)
		case n > 0:
			p.cfg.Logger.InfoContext(ctx, "the log of operators is pruned", "rows", n, "older_than", p.cfg.LogRetention)
		}
		if err := p.db.PruneGhosts(ctx, ghostsFor); err != nil && ctx.Err() == nil {
			p.cfg.Logger.WarnContext(ctx, "old ghosts are not pruned", "error", err)
		}
	}
}

// prune deletes batches until there is nothing left to delete, or enough is done.
func (p *pruner) prune(ctx context.Context) (total int64, err error) {
	for range pruneMost {
		bounded, cancel := context.WithTimeout(ctx, p.cfg.LeaseTTL)
		var n int64
		err := p.db.Use(bounded, func(conn *pgxpool.Conn) (err error) {
			n, err = publications.PruneLog(bounded, conn, p.cfg.LogRetention, pruneRows)
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
