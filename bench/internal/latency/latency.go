// Package latency measures the time from an append until its effect is visible: in a read model,
// and at a sink.
package latency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	latencyEvery = 5 * time.Millisecond // 200 appends a second
	latencyFor   = 5 * time.Second      // a round
	bareFor      = 2 * time.Second      // a round
	latencyWarm  = 50                   // uncounted appends, each round
	// Pause between polls. Shorter pauses would take one of two cores from the programs under test.
	betweenLooks  = 200 * time.Microsecond
	visibleWithin = 10 * time.Second

	createBare    = `CREATE TABLE bare (id bigint PRIMARY KEY, campaign_id text NOT NULL, payload jsonb NOT NULL)`
	insertBare    = `INSERT INTO bare (id, campaign_id, payload) VALUES ($1, $2, $3)`
	visibleEvents = `SELECT coalesce((SELECT events FROM characters
		WHERE campaign_id = 'campaign-0000000' AND character_id = 'character-0'), 0)`
	visibleAcross = `SELECT coalesce((SELECT events FROM characters WHERE character_id = 'character-0'), 0)`
	tableExists   = `SELECT to_regclass('characters') IS NOT NULL`
)

// MeasureLatency alternates between two bare commits and appends at the same rate, while a stock
// worker runs.
func MeasureLatency(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	return measure(ctx, b, harness.Campaigns, "latency", 4, visibleEvents)
}

// MeasureAcross is the same with a read model across campaigns.
func MeasureAcross(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	return measure(ctx, b, harness.Across, "across_latency", 6, visibleAcross)
}

// measure runs the worker on a folder of SQL files and looks at the read model with a query.
func measure(
	ctx context.Context, b *harness.Bench, files, name string, limit float64, query string,
) ([]harness.Figure, error) {
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
	l.visible = query
	worker, err := harness.StartWorker(ctx, db, files)
	if err != nil {
		return nil, err
	}
	figures, err := l.take(ctx, b, worker, name, limit)
	return figures, errors.Join(err, worker.Stop())
}

// latency has one connection for appends and bare commits, and one for polling.
type latency struct {
	write, look *pgx.Conn
	payload     []byte
	visible     string // returns the events of the read model's only row
	commits     int64  // bare commits so far
	appended    int64  // events so far
}

func newLatency(ctx context.Context, db *harness.Database) (*latency, error) {
	l := &latency{visible: visibleEvents}
	var err error
	if l.payload, err = harness.DamagePayload(0); err != nil {
		return nil, err
	}
	for _, conn := range []**pgx.Conn{&l.write, &l.look} {
		if *conn, err = db.Connect(ctx); err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
	}
	return l, nil
}

func (l *latency) close(ctx context.Context) {
	l.write.Close(ctx)
	l.look.Close(ctx)
}

func (l *latency) take(
	ctx context.Context, b *harness.Bench, worker *harness.Worker, name string, limit float64,
) ([]harness.Figure, error) {
	if err := worker.Until(ctx, l.look, tableExists); err != nil {
		return nil, err
	}
	var bare, p50, p99 harness.Samples
	for round := range b.Rounds {
		commits, err := l.bareCommits(ctx, latencyEvery, b.ScaledTime(bareFor))
		if err != nil {
			return nil, err
		}
		visible, err := l.appendToVisible(ctx, b.ScaledTime(latencyFor))
		if err != nil {
			return nil, err
		}
		bare, p50, p99 = append(bare, commits.Median()), append(p50, visible.Median()), append(p99, visible.Quantile(0.99))
		b.Logf("round %d  two bare commits %.2f ms, visible p50 %.2f ms, p99 %.2f ms, %d appends", round+1, bare[round],
			p50[round], p99[round], len(visible))
	}
	to := fmt.Sprintf("the median of two bare commits, %.2f ms", bare.Median())
	return []harness.Figure{
		harness.AtMost(limit, harness.Figure{
			Name: name + "_p50", Value: p50.Median(), Unit: "ms", Ratio: p50.Over(bare), To: to,
		}),
		harness.AtMost(15, harness.Figure{
			Name: name + "_p99", Value: p99.Median(), Unit: "ms", Ratio: p99.Over(bare), To: to,
		}),
	}, nil
}

// bareCommits returns the times of two consecutive one-row INSERTs, each committed, in
// milliseconds.
func (l *latency) bareCommits(ctx context.Context, every, length time.Duration) (harness.Samples, error) {
	var times harness.Samples
	err := atRate(ctx, every, length, func() error {
		start := time.Now()
		for range 2 {
			l.commits++
			if _, err := l.write.Exec(ctx, insertBare, l.commits, harness.CampaignID(0), l.payload); err != nil {
				return fmt.Errorf("bare commit: %w", err)
			}
		}
		times = append(times, milliseconds(time.Since(start)))
		return nil
	})
	return times, err
}

// appendToVisible returns the times from the start of an append's transaction until another
// connection sees its effect in the read model, in milliseconds.
func (l *latency) appendToVisible(ctx context.Context, length time.Duration) (harness.Samples, error) {
	begun := make(chan time.Time, int(length/latencyEvery)+1)
	var times harness.Samples
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(begun)
		return atRate(groupCtx, latencyEvery, length, func() error {
			start := time.Now()
			err := pgx.BeginFunc(groupCtx, l.write, func(tx pgx.Tx) error {
				_, err := journal.Journal{}.Append(groupCtx, tx, harness.CampaignID(0), journal.Any,
					event.Event{Type: harness.EventType, Payload: l.payload})
				return err
			})
			begun <- start
			return err
		})
	})
	group.Go(func() error {
		for start := range begun {
			l.appended++
			if err := l.awaitVisible(groupCtx, l.appended, start); err != nil {
				return err
			}
			times = append(times, milliseconds(time.Since(start)))
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return times[min(latencyWarm, len(times)-1):], nil
}

// awaitVisible polls until the read model holds n events.
func (l *latency) awaitVisible(ctx context.Context, n int64, start time.Time) error {
	for {
		var events int64
		if err := l.look.QueryRow(ctx, l.visible).Scan(&events); err != nil {
			return fmt.Errorf("look at the read model: %w", err)
		}
		switch {
		case events >= n:
			return nil
		case time.Since(start) > visibleWithin:
			return fmt.Errorf("event %d is not in the read model after %s", n, visibleWithin)
		}
		sleep(betweenLooks)
	}
}

// atRate calls do at a fixed interval for the given length of time. A slow call delays the
// following ones; none is skipped.
func atRate(ctx context.Context, every, length time.Duration, do func() error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for range int(length / every) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
