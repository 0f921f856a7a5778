// Package memory measures the resident memory of the worker.
package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
)

const (
	memoryLimit = 100 << 20
	outboxEmpty = `SELECT NOT EXISTS (SELECT FROM tidemark.outbox)`
)

// MeasureMemory lets the stock worker empty a long queue and reads its peak memory from the system.
func MeasureMemory(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	w := harness.Workload{Campaigns: b.Scaled(10_000), Events: 100}
	db, err := b.Filled(ctx, w)
	if err != nil {
		return nil, err
	}
	defer db.Drop(context.WithoutCancel(ctx))
	peak, err := drainWithWorker(ctx, db, w)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{harness.AtMost(1, harness.Figure{
		Name: "worker_memory", Value: float64(peak) / (1 << 20), Unit: "MiB", Ratio: float64(peak) / memoryLimit,
		To: fmt.Sprintf("%d MiB, with a backlog of %d events", memoryLimit>>20, w.Total()),
	})}, nil
}

func drainWithWorker(ctx context.Context, db *harness.Database, w harness.Workload) (peak int64, err error) {
	conn, err := db.Connect(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	worker, err := harness.StartWorker(ctx, db, harness.Campaigns)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, worker.Stop()) }()
	if err := worker.Until(ctx, conn, outboxEmpty); err != nil {
		return 0, err
	}
	var applied int
	if err := conn.QueryRow(ctx, harness.CountCharacters).Scan(&applied); err != nil {
		return 0, fmt.Errorf("check the result: %w", err)
	}
	if applied != w.Total() {
		return 0, fmt.Errorf("check the result: %d of %d events are in the read model", applied, w.Total())
	}
	return worker.PeakMemory()
}
