package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/internal/store/scheduled"
)

const (
	dueAppends  = 100_000
	firesPerRun = 5000
	fewPending  = 10_000
	manyPending = 1_000_000
	leastFired  = 5000 // a second

	fillDue = `SELECT count(tidemark.append_at('campaign-' || n, now() - interval '1 min', $2::jsonb))
		FROM generate_series(1, $1) AS n`
	// As tidemark.append_at writes them, without its checks.
	fillPending = `
		INSERT INTO tidemark.scheduled (campaign_id, due_at, attempt_at, events)
		SELECT 'campaign-' || n, d.at, d.at, $2::jsonb
		FROM generate_series(1, $1) AS n, LATERAL (SELECT now() + interval '1 h' + n * interval '1 ms' AS at) AS d`
	scheduledEvent = `[{"type": "noted", "payload": {"damage": 3}}]`
	pendingEvent   = `[{"id": "018c5f3e-0000-7000-8000-000000000001", "type": "noted", "payload": {"damage": 3}}]`
)

// fireDue schedules n appends that are due, one a campaign, and returns the time that one worker takes to make them.
func fireDue(ctx context.Context, pool *pgxpool.Pool, n int) (time.Duration, error) {
	if _, err := pool.Exec(ctx, fillDue, n, scheduledEvent); err != nil {
		return 0, fmt.Errorf("schedule: %w", err)
	}
	if _, err := pool.Exec(ctx, `CHECKPOINT`); err != nil {
		return 0, fmt.Errorf("schedule: %w", err)
	}
	start, made := time.Now(), int64(0)
	for look, more := (scheduled.Look{}), true; more; {
		fired, err := scheduled.Fire(ctx, pool, look)
		if err != nil {
			return 0, err
		}
		made, look.After, more = made+fired.Appends, fired.After, fired.More
	}
	if made != int64(n) {
		return 0, fmt.Errorf("%d appends were made of %d", made, n)
	}
	return time.Since(start), nil
}

// MeasureScheduledFire measures how many due appends one worker makes in a second.
func MeasureScheduledFire(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))
	n := b.Scaled(dueAppends)
	samples, err := b.Interleave(ctx, "appends/s", b.On(template, "scheduled appends", func(
		ctx context.Context, db *harness.Database,
	) (float64, error) {
		pool, err := db.Pool(ctx, 2)
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		took, err := fireDue(ctx, pool, n)
		return float64(n) / took.Seconds(), err
	}))
	if err != nil {
		return nil, err
	}
	rate := samples[0].Median()
	return []harness.Figure{harness.AtLeast(1, harness.Figure{
		Name: "scheduled_fire", Value: rate, Unit: "appends/s", Ratio: rate / leastFired,
		To: fmt.Sprintf("%d a second", leastFired),
	})}, nil
}

// MeasureScheduledPending compares the time to make due appends among many pending ones and among few.
func MeasureScheduledPending(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))
	side := func(pending int) (harness.Side, func(), error) {
		db, err := b.Server.Clone(ctx, template.Name)
		if err != nil {
			return harness.Side{}, nil, err
		}
		closeDB := func() { db.Drop(context.WithoutCancel(ctx)) }
		pool, err := db.Pool(ctx, 2)
		if err != nil {
			closeDB()
			return harness.Side{}, nil, err
		}
		closeAll := func() { pool.Close(); closeDB() }
		if _, err = pool.Exec(ctx, fillPending, pending, pendingEvent); err == nil {
			err = db.Settle(ctx)
		}
		if err != nil {
			closeAll()
			return harness.Side{}, nil, fmt.Errorf("fill the pending appends: %w", err)
		}
		run := func(ctx context.Context) (float64, error) {
			took, err := fireDue(ctx, pool, firesPerRun)
			return float64(took.Microseconds()) / 1000, err
		}
		return harness.Side{Name: fmt.Sprintf("%d due among %d pending", firesPerRun, pending), Run: run}, closeAll, nil
	}
	many, closeMany, err := side(b.Scaled(manyPending))
	if err != nil {
		return nil, err
	}
	defer closeMany()
	few, closeFew, err := side(fewPending)
	if err != nil {
		return nil, err
	}
	defer closeFew()
	for _, s := range []harness.Side{many, few} { // warms the caches
		if _, err := s.Run(ctx); err != nil {
			return nil, err
		}
	}
	samples, err := b.Interleave(ctx, "ms", many, few)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{harness.AtMost(1.5, harness.Figure{
		Name: "scheduled_pending", Value: samples[0].Median(), Unit: "ms", Ratio: samples[0].Over(samples[1]),
		To: fmt.Sprintf("%d due appends among %d pending", firesPerRun, fewPending),
	})}, nil
}
