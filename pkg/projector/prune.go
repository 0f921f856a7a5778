package projector

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tidemark-go/tidemark/pkg/deferred"
)

const (
	pruneEvery = time.Hour // about
	pruneRows  = 1000      // in one transaction
	pruneBatch = 100       // transactions at a time: what is left waits for the next
)

// pruneLog deletes what is old of the failure log now and then.
func (p *Projector) pruneLog(ctx context.Context) {
	for pause(ctx, time.Duration((0.5+rand.Float64())*float64(pruneEvery))) {
		n, err := p.prune(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			p.cfg.Logger.WarnContext(ctx, "failure log not pruned", "error", err)
		case n > 0:
			p.cfg.Logger.InfoContext(ctx, "failure log pruned", "rows", n, "older_than", p.cfg.FailureLogRetention)
		}
	}
}

// prune deletes batches until there is nothing left to delete, or enough is done.
func (p *Projector) prune(ctx context.Context) (total int64, err error) {
	for range pruneBatch {
		bounded, cancel := p.bounded(ctx)
		n, err := deferred.Prune(bounded, p.cfg.Pool, p.cfg.FailureLogRetention, pruneRows)
		cancel()
		total += n
		if err != nil || n < pruneRows {
			return total, err
		}
	}
	return total, nil
}
