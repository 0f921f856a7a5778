package latency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/waiter"
)

// MeasureWait alternates between appends that another connection polls for and appends that a waiter
// waits for, at the same rate, while a stock worker runs.
func MeasureWait(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	db, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Drop(context.WithoutCancel(ctx))
	l, err := newLatency(ctx, db)
	if err != nil {
		return nil, err
	}
	defer l.close(context.WithoutCancel(ctx))
	pool, err := pgxpool.New(ctx, db.URL)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	worker, err := harness.StartWorker(ctx, db, harness.Campaigns)
	if err != nil {
		return nil, err
	}
	waiter, running := waiter.New(pool, nil), errgroup.Group{}
	waiting, stop := context.WithCancel(ctx)
	running.Go(func() error { return waiter.Run(waiting) })
	figures, err := l.takeWait(ctx, b, worker, waiter)
	stop()
	return figures, errors.Join(err, running.Wait(), worker.Stop())
}

func (l *latency) takeWait(
	ctx context.Context, b *harness.Bench, worker *harness.Worker, waiter *waiter.Waiter,
) ([]harness.Figure, error) {
	if err := worker.Until(ctx, l.look, tableExists); err != nil {
		return nil, err
	}
	var visible, waited harness.Samples
	for round := range b.Rounds {
		polled, err := l.appendToVisible(ctx, b.ScaledTime(latencyFor))
		if err != nil {
			return nil, err
		}
		ended, err := l.appendToWaited(ctx, b.ScaledTime(latencyFor), waiter)
		if err != nil {
			return nil, err
		}
		visible, waited = append(visible, polled.Median()), append(waited, ended.Median())
		b.Logf("round %d  visible p50 %.2f ms, Wait returns p50 %.2f ms, p99 %.2f ms, %d appends", round+1, visible[round],
			waited[round], ended.Quantile(0.99), len(ended))
	}
	return []harness.Figure{harness.AtMost(1.2, harness.Figure{
		Name: "wait_latency", Value: waited.Median(), Unit: "ms", Ratio: waited.Over(visible),
		To: fmt.Sprintf("append to visible, %.2f ms", visible.Median()),
	})}, nil
}

// appendToWaited returns the times from the start of an append's transaction until a wait for its event
// returns, in milliseconds.
func (l *latency) appendToWaited(
	ctx context.Context, length time.Duration, waiter *waiter.Waiter,
) (harness.Samples, error) {
	type appended struct {
		start time.Time
		token string
	}
	done := make(chan appended, int(length/latencyEvery)+1)
	var times harness.Samples
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(done)
		return atRate(groupCtx, latencyEvery, length, func() error {
			a := appended{start: time.Now()}
			err := pgx.BeginFunc(groupCtx, l.write, func(tx pgx.Tx) error {
				places, err := journal.Journal{}.Append(groupCtx, tx, harness.CampaignID(0), journal.Any,
					event.Event{Type: harness.EventType, Payload: l.payload})
				if err == nil {
					a.token = places[0].Token()
				}
				return err
			})
			if err == nil {
				done <- a
			}
			return err
		})
	})
	group.Go(func() error {
		for a := range done {
			l.appended++
			bounded, cancel := context.WithTimeout(groupCtx, visibleWithin)
			err := waiter.Wait(bounded, a.token, "characters")
			cancel()
			if err != nil {
				return err
			}
			times = append(times, milliseconds(time.Since(a.start)))
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return times[min(latencyWarm, len(times)-1):], nil
}
