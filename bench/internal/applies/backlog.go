package applies

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// backlog is a workload of pending events, and the projection that applies it.
type backlog struct {
	kind     harness.Kind
	workload harness.Workload
	grouping Grouping
	proof    bool // keep the hash of ids even where no worker reads the events
}

// run lets a worker empty the queue and returns the events applied in a second.
func (w backlog) run(ctx context.Context, db *harness.Database) (float64, error) {
	// The worker's loop needs connections besides those that apply.
	pool, err := db.Pool(ctx, w.grouping.Connections+2)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	p, err := w.grouping.worker(ctx, pool, w.kind, w.proof)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	applied, err := p.Drain(ctx)
	if err != nil {
		return 0, fmt.Errorf("drain: %w", err)
	}
	rate := float64(applied) / time.Since(start).Seconds()
	if applied != w.workload.Total() {
		return 0, fmt.Errorf("drain: %d of %d events were applied", applied, w.workload.Total())
	}
	if err := harness.ExpectCount(ctx, pool, harness.CountOutbox, 0); err != nil {
		return 0, err
	}
	if w.kind.Count == "" {
		return rate, nil
	}
	return rate, harness.ExpectCount(ctx, pool, w.kind.Count, w.workload.Total())
}

// worker returns a worker that has registered the projection.
func (g Grouping) worker(
	ctx context.Context, pool *pgxpool.Pool, kind harness.Kind, proof bool,
) (*projector.Projector, error) {
	code, err := kind.Make()
	if err != nil {
		return nil, err
	}
	p, err := projector.New(projector.Config{
		Pool: pool, ConsumerGroup: harness.ConsumerGroup, Projections: []projection.Projection{code},
		Concurrency: g.Connections, ClaimCampaigns: g.Campaigns, GroupEvents: g.Events, Proof: proof,
	})
	if err != nil {
		return nil, err
	}
	return p, p.Register(ctx)
}
