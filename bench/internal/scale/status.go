package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/internal/status"
)

const (
	statusPerRound = 30
	statusToWarm   = 5
	statusProjects = 5
	fewPairs       = 5000
	manyPairs      = 5_000_000

	fillStatusRegistry = `
		INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
		SELECT 'p' || p, $1, 1, 'public', '{}', 'active' FROM generate_series(1, $2) AS p`
	fillStatusGroup = `INSERT INTO tidemark.consumer_groups (name, state) VALUES ($1, 'ready') ON CONFLICT DO NOTHING`
	// In the order in which events of many campaigns arrive: neighbours on a page belong to
	// different campaigns.
	fillStatusOutbox = `
		INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
		SELECT $1, 'campaign-' || lpad(c::text, 7, '0'), s, now(), 1
		FROM generate_series(1, $3) AS s, generate_series(0, $2 - 1) AS c`
	// The first and the last event of each campaign: the others are never read.
	fillStatusJournal = `
		INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
			payload_bytes, occurred_at, recorded_at)
		SELECT 'campaign-' || lpad(c::text, 7, '0'), s, row_number() OVER (), gen_random_uuid(), $1, 1,
			'projection_and_replay', '{}', 2, now(), now()
		FROM generate_series(0, $2 - 1) AS c, unnest(ARRAY[1, $3]) AS s`
	fillStatusPairs = `
		INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
			next_attempt_at, error_class, error_message, error_stack, first_failed_at, last_failed_at)
		SELECT 'campaign-' || lpad(c::text, 7, '0'), 'p' || p, $1, 1, s.status, 1, CASE s.status WHEN 'dead' THEN 'infinity'
			ELSE now() + interval '1 hour' END,
			CASE WHEN s.status <> 'catching_up' THEN CASE WHEN c % 3 = 0 THEN 'permanent'
				ELSE 'transient' END END, 'bad payload', repeat('x', 200), now(), now()
		FROM generate_series(0, $2 - 1) AS c, generate_series(1, $3) AS p,
			LATERAL (SELECT CASE WHEN c % 10 < 2 THEN 'dead' WHEN c % 10 < 5 THEN 'failed' ELSE 'catching_up' END AS status) AS s`
)

// readStatus returns the median time to read the sections that grow with the backlog, in
// milliseconds.
func readStatus(ctx context.Context, reader *status.Reader, n int) (float64, error) {
	var times harness.Samples
	for range n {
		start := time.Now()
		s, err := reader.Read(ctx, status.SectionQueue, status.SectionLag, status.SectionFailed)
		if err != nil {
			return 0, err
		}
		times = append(times, float64(time.Since(start).Microseconds())/1000)
		for section, err := range s.Unread {
			return 0, fmt.Errorf("status: %s: %w", section, err)
		}
	}
	return times.Median(), nil
}

func MeasureStatus(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))

	side := func(rows, pairs int) (harness.Side, func(), error) {
		db, err := b.Server.Clone(ctx, template.Name)
		if err != nil {
			return harness.Side{}, nil, err
		}
		pool, err := pgxpool.New(ctx, db.URL)
		if err != nil {
			return harness.Side{}, nil, fmt.Errorf("connect: %w", err)
		}
		closeDB := func() {
			pool.Close()
			db.Drop(context.WithoutCancel(ctx))
		}
		start, campaigns := time.Now(), rows/outboxPerCampaign
		for _, fill := range []struct {
			query string
			args  []any
		}{
			{fillStatusGroup, []any{harness.ConsumerGroup}},
			{fillStatusRegistry, []any{harness.ConsumerGroup, statusProjects}},
			{fillStatusOutbox, []any{harness.ConsumerGroup, campaigns, outboxPerCampaign}},
			{fillLeases, []any{harness.ConsumerGroup, campaigns}},
			{fillStatusJournal, []any{harness.EventType, campaigns, outboxPerCampaign}},
			{fillStatusPairs, []any{harness.ConsumerGroup, pairs / statusProjects, statusProjects}},
		} {
			if _, err := pool.Exec(ctx, fill.query, fill.args...); err != nil {
				closeDB()
				return harness.Side{}, nil, fmt.Errorf("fill for the status: %w", err)
			}
		}
		if err := db.Settle(ctx); err != nil {
			closeDB()
			return harness.Side{}, nil, err
		}
		b.Logf("%d work items and %d pairs after %s", rows, pairs, time.Since(start).Round(time.Millisecond))
		reader := &status.Reader{Pool: pool, Timeout: time.Minute}
		run := func(ctx context.Context) (float64, error) {
			if _, err := readStatus(ctx, reader, statusToWarm); err != nil {
				return 0, err
			}
			return readStatus(ctx, reader, statusPerRound)
		}
		return harness.Side{Name: fmt.Sprintf("status with %d rows waiting", rows), Run: run}, closeDB, nil
	}
	many, closeMany, err := side(b.Scaled(longOutbox), b.Scaled(manyPairs))
	if err != nil {
		return nil, err
	}
	defer closeMany()
	few, closeFew, err := side(shortOutbox, fewPairs)
	if err != nil {
		return nil, err
	}
	defer closeFew()

	samples, err := b.Interleave(ctx, "ms", many, few)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{harness.AtMost(2, harness.Figure{
		Name: "status_ten_million", Value: samples[0].Median(), Unit: "ms", Ratio: samples[0].Over(samples[1]),
		To: fmt.Sprintf("queue, lag and pairs that are behind with %d rows and %d pairs", shortOutbox, fewPairs),
	})}, nil
}
