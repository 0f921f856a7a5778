package projector

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/deferred"
)

const (
	pruneEvery = time.Hour // about
	pruneRows  = 1000      // in one transaction
	pruneBatch = 100       // transactions at a time: what is left waits for the next
)

// pruneLog deletes what is old of the failure log, and snapshots that have outlived their version, now and then.
func (p *Projector) pruneLog(ctx context.Context) {
	for pause(ctx, time.Duration((0.5+rand.Float64())*float64(pruneEvery))) {
		n, err := p.prune(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			p.cfg.Logger.WarnContext(ctx, "failure log not pruned", "error", err)
		case n > 0:
			p.cfg.Logger.InfoContext(ctx, "failure log pruned", "rows", n, "older_than", p.cfg.FailureLogRetention)
		}
		n, err = p.pruneSnapshots(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			p.cfg.Logger.WarnContext(ctx, "snapshots not pruned", "error", err)
		case n > 0:
			p.cfg.Logger.InfoContext(ctx, "snapshots of versions that are gone are pruned", "rows", n)
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

// pruneSnapshots deletes batches of the snapshots that are of no use any more, until there are none left, or enough is done.
func (p *Projector) pruneSnapshots(ctx context.Context) (total int64, err error) {
	bounded, cancel := p.bounded(ctx)
	defer cancel()
	rows, err := p.cfg.Pool.Query(bounded, queryOutlivedSnapshots)
	if err != nil {
		return 0, err
	}
	outlived, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (of identity, err error) { return of, row.Scan(&of.name, &of.version) })
	if err != nil {
		return 0, err
	}
	for _, of := range outlived {
		n, err := p.forgetSnapshots(ctx, of.name, of.version)
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}

// forgetSnapshots deletes a version's snapshots, a batch a transaction.
func (p *Projector) forgetSnapshots(ctx context.Context, projection string, version int) (total int64, err error) {
	for range pruneBatch {
		bounded, cancel := p.bounded(ctx)
		tag, err := p.cfg.Pool.Exec(bounded, queryForgetSomeSnapshots, projection, version, pruneRows)
		cancel()
		total += tag.RowsAffected()
		if err != nil || tag.RowsAffected() < pruneRows {
			return total, err
		}
	}
	return total, nil
}
