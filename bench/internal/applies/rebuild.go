package applies

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

const (
	// rebuildShare is the max_share of a rebuild beside live work.
	rebuildShare = 0.5
	// rebuildFasterSparse is how much faster than live work a rebuild must be with few events a
	// campaign: it has no queue and no leases. With many events a campaign these cost live work
	// almost nothing either, so a rebuild is compared with a bare fold instead.
	rebuildFasterSparse = 3
	rebuildFasterDense  = 1
	rebuildToBareFold   = 0.6

	countRebuilt = `SELECT count(*) FROM tidemark.failure_log WHERE act = 'rebuilt'`
)

// rebuilding is a journal that has been applied, and the projection to rebuild from it.
type rebuilding struct{ backlog }

func (w rebuilding) projector(ctx context.Context, db *harness.Database) (*pgxpool.Pool, *projector.Projector, error) {
	pool, err := db.Pool(ctx, w.grouping.Connections+4)
	if err != nil {
		return nil, nil, err
	}
	code, err := w.kind.Make()
	if err != nil {
		return pool, nil, err
	}
	p, err := projector.New(projector.Config{
		Pool: pool, ConsumerGroup: harness.ConsumerGroup, Projections: []projection.Projection{code},
		Concurrency: w.grouping.Connections, ClaimCampaigns: w.grouping.Campaigns, GroupEvents: w.grouping.Events,
	})
	return pool, p, err
}

func (w rebuilding) ask(ctx context.Context, pool *pgxpool.Pool, share float64) error {
	none := 0
	_, err := rebuild.StartRebuild(ctx, pool, "characters", rebuild.Options{MaxShare: &share, Verify: &none},
		failed.Act{By: "bench"})
	return err
}

// run rebuilds, including the swap, and returns the events applied in a second.
func (w rebuilding) run(ctx context.Context, db *harness.Database) (float64, error) {
	pool, p, err := w.projector(ctx, db)
	if pool != nil {
		defer pool.Close()
	}
	if err != nil {
		return 0, err
	}
	if err := p.Register(ctx); err != nil {
		return 0, err
	}
	if err := w.ask(ctx, pool, 1); err != nil {
		return 0, err
	}
	start := time.Now()
	applied, err := p.Drain(ctx)
	if err != nil {
		return 0, fmt.Errorf("drain: %w", err)
	}
	rate := float64(applied) / time.Since(start).Seconds()
	return rate, errors.Join(harness.ExpectCount(ctx, pool, countRebuilt, 1),
		harness.ExpectCount(ctx, pool, w.kind.Count, w.workload.Total()))
}

// beside appends and applies as many events as there are already and returns how many it applied in
// a second. With rebuild the projection is rebuilt meanwhile.
func (w rebuilding) beside(rebuild bool) func(context.Context, *harness.Database) (float64, error) {
	return func(ctx context.Context, db *harness.Database) (float64, error) {
		pool, p, err := w.projector(ctx, db)
		if pool != nil {
			defer pool.Close()
		}
		if err != nil {
			return 0, err
		}
		if err := p.Register(ctx); err != nil {
			return 0, err
		}
		if rebuild {
			if err := w.ask(ctx, pool, rebuildShare); err != nil {
				return 0, err
			}
		}
		if err := w.workload.Fill(ctx, pool); err != nil {
			return 0, err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		start := time.Now()
		go func() { ended <- p.Run(ctx) }()
		for left := 1; left > 0; {
			if err := pool.QueryRow(ctx, harness.CountOutbox).Scan(&left); err != nil {
				return 0, fmt.Errorf("wait for the queue to be empty: %w", err)
			}
		}
		rate := float64(w.workload.Total()) / time.Since(start).Seconds()
		stop()
		return rate, <-ended
	}
}

func MeasureRebuild(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	figures, _, err := measureRebuildOf(ctx, b, "sparse", rebuildFasterSparse, backlog{
		kind: harness.DocumentFold(), workload: sparse(b), grouping: sparseGroups(),
	})
	return figures, err
}

func MeasureRebuildDense(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	w := backlog{
		kind:     harness.DocumentFold(),
		workload: harness.Workload{Campaigns: b.Scaled(3000), Events: 100}, grouping: denseGroups(),
	}
	bare := bareLoop{workload: w.workload, grouping: w.grouping}
	figures, samples, err := measureRebuildOf(ctx, b, "dense", rebuildFasterDense, w,
		func(applied *harness.Database) harness.Side { return b.On(applied, "dense, bare fold", bare.fold) })
	if err != nil {
		return nil, err
	}
	return append(figures, harness.AtLeast(rebuildToBareFold, harness.Figure{
		Name: "rebuild_dense_bare", Value: samples[1].Median(), Unit: "events/s", Ratio: samples[1].Over(samples[4]),
		To: "a loop that reads, folds and copies the same events, with nothing around it",
	})), nil
}

// measureRebuildOf compares a rebuild with live work and with the given other sides.
func measureRebuildOf(
	ctx context.Context, b *harness.Bench, name string, faster float64, w backlog,
	more ...func(applied *harness.Database) harness.Side,
) ([]harness.Figure, []harness.Samples, error) {
	waiting, err := b.Filled(ctx, w.workload)
	if err != nil {
		return nil, nil, err
	}
	defer waiting.Drop(context.WithoutCancel(ctx))
	applied, err := b.Filled(ctx, w.workload)
	if err != nil {
		return nil, nil, err
	}
	defer applied.Drop(context.WithoutCancel(ctx))
	if _, err := w.run(ctx, applied); err != nil {
		return nil, nil, err
	}
	if err := applied.Settle(ctx); err != nil {
		return nil, nil, err
	}
	r := rebuilding{w}
	sides := []harness.Side{
		b.On(waiting, name+", live", w.run), b.On(applied, name+", rebuilt", r.run),
		b.On(applied, name+", live alone", r.beside(false)), b.On(applied, name+", live beside a rebuild", r.beside(true)),
	}
	for _, side := range more {
		sides = append(sides, side(applied))
	}
	samples, err := b.Interleave(ctx, "events/s", sides...)
	if err != nil {
		return nil, nil, err
	}
	size := fmt.Sprintf("%d × %d events", w.workload.Campaigns, w.workload.Events)
	return []harness.Figure{
		harness.AtLeast(faster, harness.Figure{
			Name: "rebuild_" + name, Value: samples[1].Median(), Unit: "events/s",
			Ratio: samples[1].Over(samples[0]), To: "the same documents live, " + size,
		}),
		harness.AtLeast(1-rebuildShare, harness.Figure{
			Name: "rebuild_beside_" + name, Value: samples[3].Median(), Unit: "events/s", Ratio: samples[3].Over(samples[2]),
			To: fmt.Sprintf("live work alone, a share of %v given away, %s", rebuildShare, size),
		}),
	}, samples, nil
}
