package main

import (
	"context"
	"fmt"
)

func measureRiver(ctx context.Context, b *Bench) ([]Figure, error) {
	template, err := b.Filled(ctx, dense(b))
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))
	empty, err := b.Server.Create(ctx)
	if err != nil {
		return nil, err
	}
	defer empty.Drop(context.WithoutCancel(ctx))

	nothingJobs, upsertJobs := dense(b).Total(), b.Scaled(10_000)
	samples, err := b.Interleave(ctx, "events/s",
		b.On(template, "Tidemark, no-op", backlog{kind: nothing(), workload: dense(b), grouping: denseGroups()}.run),
		b.On(empty, "River, no-op", riverNothing(nothingJobs).run),
		b.On(template, "Tidemark, the UPSERT", backlog{kind: goHandler(), workload: dense(b), grouping: denseGroups()}.run),
		b.On(empty, "River, the UPSERT", riverUpsert(upsertJobs).run),
	)
	if err != nil {
		return nil, err
	}
	return []Figure{
		AtLeast(5, Figure{
			Name: "river_no_op", Value: samples[0].Median(), Unit: "events/s", Ratio: samples[0].Over(samples[1]),
			To: fmt.Sprintf("River's burn-down of %d jobs that do nothing", nothingJobs),
		}),
		AtLeast(20, Figure{
			Name: "river_upsert", Value: samples[2].Median(), Unit: "events/s", Ratio: samples[2].Over(samples[3]),
			To: fmt.Sprintf("River's burn-down of %d jobs, the same UPSERT and JobCompleteTx", upsertJobs),
		}),
	}, nil
}

func measureWatermill(ctx context.Context, b *Bench) ([]Figure, error) {
	template, err := b.Filled(ctx, dense(b))
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))
	empty, err := b.Server.Create(ctx)
	if err != nil {
		return nil, err
	}
	defer empty.Drop(context.WithoutCancel(ctx))

	messages := dense(b).Total()
	samples, err := b.Interleave(ctx, "events/s",
		b.On(template, "Tidemark, no-op", backlog{kind: nothing(), workload: dense(b), grouping: denseGroups()}.run),
		b.On(empty, "watermill-sql, no-op", watermillDrain{messages: messages}.run),
	)
	if err != nil {
		return nil, err
	}
	return []Figure{AtLeast(4, Figure{
		Name: "watermill_no_op", Value: samples[0].Median(), Unit: "events/s", Ratio: samples[0].Over(samples[1]),
		To: fmt.Sprintf("watermill-sql's drain of %d messages with a handler that does nothing", messages),
	})}, nil
}
