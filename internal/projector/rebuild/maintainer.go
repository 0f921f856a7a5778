package rebuild

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/claim"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
)

const (
	pruneEvery = time.Hour // about
	pruneRows  = 1000      // in one transaction
	pruneBatch = 100       // transactions at a time: what is left waits for the next
)

// Maintainer deletes what is old, and repairs gaps.
type Maintainer struct {
	*registry.Base
	Listener *claim.Listener
}

// PruneLog deletes what is old of the failure log, now and then.
func (m *Maintainer) PruneLog(ctx context.Context) {
	for registry.Sleep(ctx, time.Duration((0.5+rand.Float64())*float64(pruneEvery))) {
		n, err := m.Prune(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			m.Cfg.Logger.WarnContext(ctx, "failure log not pruned", "error", err)
		case n > 0:
			m.Cfg.Logger.InfoContext(ctx, "failure log pruned", "rows", n, "older_than", m.Cfg.FailureLogRetention)
		}
	}
}

// Prune deletes batches until there is nothing left to delete, or enough is done.
func (m *Maintainer) Prune(ctx context.Context) (total int64, err error) {
	for range pruneBatch {
		bounded, cancel := m.Bounded(ctx)
		n, err := failed.Prune(bounded, m.Cfg.Pool, m.Cfg.FailureLogRetention, pruneRows)
		cancel()
		total += n
		if err != nil || n < pruneRows {
			return total, err
		}
	}
	return total, nil
}
