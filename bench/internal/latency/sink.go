package latency

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

const (
	seenEvery  = 20 * time.Millisecond // lets the relay become idle each time
	seenFor    = 4 * time.Second       // a round
	seenWarm   = 5                     // uncounted appends, each round
	seenWithin = 10 * time.Second
)

// seeing is a sink that reports when events arrive.
type seeing chan time.Time

// Name returns the sink's name.
func (seeing) Name() string { return "seeing" }

// Publish sends the current time for each event.
func (s seeing) Publish(_ context.Context, events []publisher.Event) error {
	now := time.Now()
	for range events {
		s <- now
	}
	return nil
}

// MeasureSeen alternates between two bare commits and appends to a journal that a relay publishes,
// all at the same rate.
func MeasureSeen(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	db, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Drop(context.WithoutCancel(ctx))
	if err := db.Exec(ctx, createBare); err != nil {
		return nil, err
	}
	l, err := newLatency(ctx, db)
	if err != nil {
		return nil, err
	}
	defer l.close(context.WithoutCancel(ctx))
	pool, err := harness.OpenRelayPool(ctx, db)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	sink := make(seeing, 1)
	relay, err := publisher.New(harness.RelayConfig(pool, sink, 1))
	if err != nil {
		return nil, err
	}
	stop := harness.StartRelay(ctx, relay)
	figures, err := l.takeSeen(ctx, b, sink)
	if stopErr := stop(); err == nil {
		err = stopErr
	}
	return figures, err
}

func (l *latency) takeSeen(ctx context.Context, b *harness.Bench, sink seeing) ([]harness.Figure, error) {
	var bare, p50, p99 harness.Samples
	for round := range b.Rounds {
		commits, err := l.bareCommits(ctx, seenEvery, b.ScaledTime(seenFor))
		if err != nil {
			return nil, err
		}
		seen, err := l.appendToSeen(ctx, b.ScaledTime(seenFor), sink)
		if err != nil {
			return nil, err
		}
		bare, p50, p99 = append(bare, commits.Median()), append(p50, seen.Median()), append(p99, seen.Quantile(0.99))
		b.Logf("round %d  two bare commits %.2f ms, seen p50 %.2f ms, p99 %.2f ms, %d appends", round+1, bare[round],
			p50[round], p99[round], len(seen))
	}
	return []harness.Figure{harness.AtMost(5, harness.Figure{
		Name: "publish_latency_p50", Value: p50.Median(), Unit: "ms", Ratio: p50.Over(bare),
		To: fmt.Sprintf("the median of two bare commits, %.2f ms", bare.Median()),
	})}, nil
}

// appendToSeen returns the times from the start of an append's transaction until the sink gets the
// event, in milliseconds.
func (l *latency) appendToSeen(
	ctx context.Context, length time.Duration, sink seeing,
) (times harness.Samples, err error) {
	err = atRate(ctx, seenEvery, length, func() error {
		start := time.Now()
		err := pgx.BeginFunc(ctx, l.write, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(ctx, tx, harness.CampaignID(0), journal.Any,
				event.Event{Type: harness.EventType, Payload: l.payload})
			return err
		})
		if err != nil {
			return fmt.Errorf("append: %w", err)
		}
		select {
		case seen := <-sink:
			times = append(times, milliseconds(seen.Sub(start)))
			return nil
		case <-time.After(seenWithin):
			return fmt.Errorf("event %d has not come after %s", len(times)+1, seenWithin)
		}
	})
	return times[min(seenWarm, max(len(times)-1, 0)):], err
}
