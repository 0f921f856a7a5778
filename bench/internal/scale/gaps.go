package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

const (
	fewGapCampaigns  = 10_000
	manyGapCampaigns = 1_000_000
	gapChunk         = 5000
	gapPasses        = 20 // over the few campaigns, so that the timed part is long enough

	// One event for each campaign: the search steps over the events of a campaign, however many
	// there are.
	fillGapJournal = `
		INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
			payload_bytes, occurred_at, recorded_at)
		SELECT 'campaign-' || lpad(c::text, 7, '0'), 1, c + 1, gen_random_uuid(), $1, 1, 'projection_and_replay', '{}', 2,
			now(), now()
		FROM generate_series(0, $2 - 1) AS c`
	fillGapLeases = `
		INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
		SELECT $1, 'campaign-' || lpad(c::text, 7, '0'), 'earlier', 1, '-infinity', 1
		FROM generate_series(0, $2 - 1) AS c`
)

// lookForGaps returns the time to check one campaign, in microseconds.
func lookForGaps(ctx context.Context, conn *pgx.Conn, campaigns, passes int) (float64, error) {
	start := time.Now()
	for range passes {
		done, err := outbox.Repair{Group: harness.ConsumerGroup, By: "bench", Chunk: gapChunk}.Run(ctx, conn)
		if err != nil {
			return 0, err
		}
		if done.Campaigns != campaigns || done.Gaps != 0 {
			return 0, fmt.Errorf("gaps: looked at %d campaigns of %d and found %d gaps where there are none", done.Campaigns,
				campaigns, done.Gaps)
		}
	}
	return float64(time.Since(start).Nanoseconds()) / 1000 / float64(campaigns*passes), nil
}

func MeasureGaps(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))

	side := func(campaigns, passes int) (harness.Side, func(), error) {
		db, err := b.Server.Clone(ctx, template.Name)
		if err != nil {
			return harness.Side{}, nil, err
		}
		conn, err := db.Connect(ctx)
		if err != nil {
			return harness.Side{}, nil, fmt.Errorf("connect: %w", err)
		}
		closeDB := func() {
			conn.Close(context.WithoutCancel(ctx))
			db.Drop(context.WithoutCancel(ctx))
		}
		start := time.Now()
		if _, err := conn.Exec(ctx, fillGapJournal, harness.EventType, campaigns); err != nil {
			closeDB()
			return harness.Side{}, nil, fmt.Errorf("fill the journal: %w", err)
		}
		if _, err := conn.Exec(ctx, fillGapLeases, harness.ConsumerGroup, campaigns); err != nil {
			closeDB()
			return harness.Side{}, nil, fmt.Errorf("fill the leases: %w", err)
		}
		if err := db.Settle(ctx); err != nil {
			closeDB()
			return harness.Side{}, nil, err
		}
		b.Logf("%d campaigns after %s", campaigns, time.Since(start).Round(time.Millisecond))
		run := func(ctx context.Context) (float64, error) { return lookForGaps(ctx, conn, campaigns, passes) }
		return harness.Side{Name: fmt.Sprintf("gap detection over %d campaigns", campaigns), Run: run}, closeDB, nil
	}
	many, closeMany, err := side(b.Scaled(manyGapCampaigns), 1)
	if err != nil {
		return nil, err
	}
	defer closeMany()
	few, closeFew, err := side(fewGapCampaigns, gapPasses)
	if err != nil {
		return nil, err
	}
	defer closeFew()

	samples, err := b.Interleave(ctx, "µs", many, few)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{harness.AtMost(1.5, harness.Figure{
		Name: "gaps_million", Value: samples[0].Median(), Unit: "µs", Ratio: samples[0].Over(samples[1]),
		To: fmt.Sprintf("a campaign's share of gap detection over %d campaigns", fewGapCampaigns),
	})}, nil
}
