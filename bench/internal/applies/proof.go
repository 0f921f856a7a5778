package applies

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// proofCost is the maximum share of live speed that the proof may cost.
const proofCost = 0.05

// MeasureProof applies with and without the hash of ids where no worker reads the events, and
// compares the checkpoints with the journal.
func MeasureProof(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	w := backlog{
		kind: harness.SQLFile(), workload: harness.Workload{Campaigns: b.Scaled(3000), Events: 100},
		grouping: denseGroups(),
	}
	template, err := b.Filled(ctx, w.workload)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))
	hashed := w
	hashed.proof = true
	samples, err := b.Interleave(ctx, "events/s", b.On(template, "SQL file, no hash", w.run),
		b.On(template, "SQL file, hash of ids", hashed.run))
	if err != nil {
		return nil, err
	}
	prove, err := b.Interleave(ctx, "events/s", b.On(template, "proof of all", hashed.prove))
	if err != nil {
		return nil, err
	}
	size := fmt.Sprintf("%d × %d events", w.workload.Campaigns, w.workload.Events)
	return []harness.Figure{
		harness.AtLeast(1-proofCost, harness.Figure{
			Name: "proof_live", Value: samples[1].Median(), Unit: "events/s",
			Ratio: samples[1].Over(samples[0]), To: "the same SQL file without TIDEMARK_PROOF, " + size,
		}),
		harness.AtLeast(1, harness.Figure{
			Name: "proof_all", Value: prove[0].Median(), Unit: "events/s", Ratio: prove[0].Over(samples[0]),
			To: "applying them, " + size,
		}),
	}, nil
}

// prove applies all events, then returns how many events a second it compares with the journal.
func (w backlog) prove(ctx context.Context, db *harness.Database) (float64, error) {
	if _, err := w.run(ctx, db); err != nil {
		return 0, err
	}
	if err := db.Settle(ctx); err != nil {
		return 0, err
	}
	pool, err := db.Pool(ctx, 1)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	start := time.Now()
	var took time.Duration
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		differ := 0
		proved, err := lease.Prove(ctx, tx, harness.ConsumerGroup, func(lease.Unproved) { differ++ })
		took = time.Since(start)
		if err == nil && (differ > 0 || proved.Unhashed > 0 || proved.Events != int64(w.workload.Total())) {
			err = fmt.Errorf("%d campaigns differ, %+v", differ, proved)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prove: %w", err)
	}
	return float64(w.workload.Total()) / took.Seconds(), nil
}
