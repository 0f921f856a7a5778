package applies

import (
	"context"
	"fmt"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
)

// peerWork is a third of the dense queue, because the other systems are slow.
func peerWork(b *harness.Bench) harness.Workload {
	return harness.Workload{Campaigns: b.Scaled(1000), Events: 100}
}

func MeasureRiver(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Filled(ctx, peerWork(b))
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))
	empty, err := b.Server.Create(ctx)
	if err != nil {
		return nil, err
	}
	defer empty.Drop(context.WithoutCancel(ctx))

	nothingJobs, upsertJobs := peerWork(b).Total(), b.Scaled(10_000)
	samples, err := b.Interleave(ctx, "events/s",
		b.On(template, "Tidemark, no-op", backlog{kind: harness.NoOp(), workload: peerWork(b), grouping: denseGroups()}.run),
		b.On(empty, "River, no-op", riverNothing(nothingJobs).run),
		b.On(template, "Tidemark, the UPSERT",
			backlog{kind: harness.GoHandler(), workload: peerWork(b), grouping: denseGroups()}.run),
		b.On(empty, "River, the UPSERT", riverUpsert(upsertJobs).run),
	)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{
		harness.AtLeast(5, harness.Figure{
			Name: "river_no_op", Value: samples[0].Median(), Unit: "events/s", Ratio: samples[0].Over(samples[1]),
			To: fmt.Sprintf("River's burn-down of %d jobs that do nothing", nothingJobs),
		}),
		harness.AtLeast(20, harness.Figure{
			Name: "river_upsert", Value: samples[2].Median(), Unit: "events/s", Ratio: samples[2].Over(samples[3]),
			To: fmt.Sprintf("River's burn-down of %d jobs, the same UPSERT and JobCompleteTx", upsertJobs),
		}),
	}, nil
}

func MeasureWatermill(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Filled(ctx, peerWork(b))
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))
	empty, err := b.Server.Create(ctx)
	if err != nil {
		return nil, err
	}
	defer empty.Drop(context.WithoutCancel(ctx))

	messages := peerWork(b).Total()
	samples, err := b.Interleave(ctx, "events/s",
		b.On(template, "Tidemark, no-op", backlog{kind: harness.NoOp(), workload: peerWork(b), grouping: denseGroups()}.run),
		b.On(empty, "watermill-sql, no-op", harness.WatermillDrain{Messages: messages}.Run),
	)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{harness.AtLeast(4, harness.Figure{
		Name: "watermill_no_op", Value: samples[0].Median(), Unit: "events/s", Ratio: samples[0].Over(samples[1]),
		To: fmt.Sprintf("watermill-sql's drain of %d messages with a handler that does nothing", messages),
	})}, nil
}
