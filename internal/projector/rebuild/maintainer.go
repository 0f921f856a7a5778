package rebuild

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/claim"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
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

// PruneLog deletes what is old of the failure log, and snapshots that have outlived their version, now and then.
func (m *Maintainer) PruneLog(ctx context.Context) {
	for registry.Sleep(ctx, time.Duration((0.5+rand.Float64())*float64(pruneEvery))) {
		n, err := m.Prune(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			m.Cfg.Logger.WarnContext(ctx, "failure log not pruned", "error", err)
		case n > 0:
			m.Cfg.Logger.InfoContext(ctx, "failure log pruned", "rows", n, "older_than", m.Cfg.FailureLogRetention)
		}
		n, err = m.PruneSnapshots(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			m.Cfg.Logger.WarnContext(ctx, "snapshots not pruned", "error", err)
		case n > 0:
			m.Cfg.Logger.InfoContext(ctx, "snapshots of versions that are gone are pruned", "rows", n)
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

// PruneSnapshots deletes batches of the snapshots that are of no use any more, until there are none
// left, or enough is done.
func (m *Maintainer) PruneSnapshots(ctx context.Context) (total int64, err error) {
	bounded, cancel := m.Bounded(ctx)
	defer cancel()
	outlived, err := rows.All(bounded, m.Cfg.Pool, func(row pgx.CollectableRow) (of registry.Identity, err error) {
		return of, row.Scan(&of.Name, &of.Version)
	},
		"", replay.QueryOutlivedSnapshots)
	if err != nil {
		return 0, err
	}
	for _, of := range outlived {
		n, err := m.forgetSnapshots(ctx, of.Name, of.Version)
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}

// forgetSnapshots deletes a version's snapshots, a batch a transaction.
func (m *Maintainer) forgetSnapshots(ctx context.Context, projection string, version int) (total int64, err error) {
	for range pruneBatch {
		bounded, cancel := m.Bounded(ctx)
		tag, err := m.Cfg.Pool.Exec(bounded, replay.QueryForgetSomeSnapshots, projection, version, pruneRows)
		cancel()
		total += tag.RowsAffected()
		if err != nil || tag.RowsAffected() < pruneRows {
			return total, err
		}
	}
	return total, nil
}
