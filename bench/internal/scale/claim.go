// Package scale measures operations that must not slow down as tables grow: claims, figures, gaps,
// pages, and looking back.
package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

const (
	claimCampaigns    = 64
	claimsPerRound    = 200
	claimsToWarm      = 50
	outboxPerCampaign = 10
	shortOutbox       = 10_000
	longOutbox        = 10_000_000

	// Written without a journal: the measure is about finding work, and a journal of ten million
	// events would take long to create.
	fillOutbox = `
		INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
		SELECT $1, 'campaign-' || lpad(c::text, 7, '0'), s, now(), 1
		FROM generate_series(0, $2 - 1) AS c, generate_series(1, $3) AS s`
	// Leases of earlier work: in a long-lived system almost every claimed campaign has one.
	fillLeases = `
		INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
		SELECT $1, 'campaign-' || lpad(c::text, 7, '0'), 'earlier', 1, '-infinity', 0
		FROM generate_series(0, $2 - 1) AS c`
)

// claimer alternates between claim and release, and moves its cursor like a worker.
type claimer struct {
	keeper lease.Keeper
	conn   *pgx.Conn
	cursor string
}

// claims returns the median time of a claim in milliseconds.
func (c *claimer) claims(ctx context.Context, n int) (float64, error) {
	var times harness.Samples
	for range n {
		start := time.Now()
		claimed, err := c.keeper.Claim(ctx, c.conn, c.cursor, claimCampaigns, 0)
		if err != nil {
			return 0, err
		}
		times = append(times, float64(time.Since(start).Microseconds())/1000)
		if len(claimed.Leases) != claimCampaigns {
			return 0, fmt.Errorf("claim: it found %d campaigns of %d", len(claimed.Leases), claimCampaigns)
		}
		c.cursor = claimed.Cursor
		if err := c.keeper.Release(ctx, c.conn, claimed.Leases); err != nil {
			return 0, err
		}
	}
	return times.Median(), nil
}

func MeasureClaim(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))

	side := func(rows int) (harness.Side, func(), error) {
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
		if _, err := conn.Exec(ctx, fillOutbox, harness.ConsumerGroup, rows/outboxPerCampaign,
			outboxPerCampaign); err != nil {
			closeDB()
			return harness.Side{}, nil, fmt.Errorf("fill the outbox: %w", err)
		}
		if _, err := conn.Exec(ctx, fillLeases, harness.ConsumerGroup, rows/outboxPerCampaign); err != nil {
			closeDB()
			return harness.Side{}, nil, fmt.Errorf("fill the leases: %w", err)
		}
		if err := db.Settle(ctx); err != nil {
			closeDB()
			return harness.Side{}, nil, err
		}
		b.Logf("%d rows wait in the outbox after %s", rows, time.Since(start).Round(time.Millisecond))
		c := claimer{conn: conn, keeper: lease.Keeper{Group: harness.ConsumerGroup, Owner: "bench", TTL: 30 * time.Second}}
		run := func(ctx context.Context) (float64, error) {
			if _, err := c.claims(ctx, claimsToWarm); err != nil {
				return 0, err
			}
			return c.claims(ctx, claimsPerRound)
		}
		return harness.Side{Name: fmt.Sprintf("claim with %d rows waiting", rows), Run: run}, closeDB, nil
	}
	long, closeLong, err := side(b.Scaled(longOutbox))
	if err != nil {
		return nil, err
	}
	defer closeLong()
	short, closeShort, err := side(shortOutbox)
	if err != nil {
		return nil, err
	}
	defer closeShort()

	samples, err := b.Interleave(ctx, "ms", long, short)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{harness.AtMost(1.5, harness.Figure{
		Name: "claim_ten_million", Value: samples[0].Median(), Unit: "ms", Ratio: samples[0].Over(samples[1]),
		To: fmt.Sprintf("a claim of %d campaigns with %d rows waiting", claimCampaigns, shortOutbox),
	})}, nil
}
