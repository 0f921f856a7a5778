package scale

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

const (
	longCampaign   = 100_000 // events
	earlyEvent     = 1000
	snapshotEvery  = 1000
	travelSlower   = 5 // looking back at a late event may take so many times what an early one takes
	looksEach      = 20
	eventsAnAppend = 1000
)

// MeasureTravel looks back on a long campaign early and late.
func MeasureTravel(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	db, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Drop(context.WithoutCancel(ctx))
	pool, err := db.Pool(ctx, 4)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	late := b.Scaled(longCampaign)
	for seq := 1; seq <= late; seq += eventsAnAppend {
		var events []journal.Event
		for i := range min(eventsAnAppend, late-seq+1) {
			payload, err := harness.DamagePayload(seq + i)
			if err != nil {
				return nil, err
			}
			events = append(events, journal.Event{Type: harness.EventType, Payload: payload})
		}
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := journal.Append(ctx, tx, harness.CampaignID(0), journal.Any, events...)
			return err
		}); err != nil {
			return nil, fmt.Errorf("fill the journal: %w", err)
		}
	}
	projection, err := harness.DocumentFold().Make()
	if err != nil {
		return nil, err
	}
	look := func(every int64, seq int) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			p, err := projector.New(projector.Config{
				Pool: pool, ConsumerGroup: harness.ConsumerGroup,
				Projections: []projector.Projection{projection}, Concurrency: 1, SnapshotEvery: every,
			})
			if err != nil {
				return 0, err
			}
			var took []time.Duration
			for range looksEach {
				start := time.Now()
				if _, err := p.AsOf(ctx, "characters", harness.CampaignID(0), int64(seq)); err != nil {
					return 0, err
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			return float64(took[len(took)/2].Microseconds()) / 1000, nil
		}
	}
	if err := db.Settle(ctx); err != nil {
		return nil, err
	}
	// The first look makes the snapshots.
	if _, err := look(snapshotEvery, late)(ctx); err != nil {
		return nil, err
	}
	samples, err := b.Interleave(ctx, "ms",
		harness.Side{Name: fmt.Sprintf("as of event %d", earlyEvent-1), Run: look(snapshotEvery, earlyEvent-1)},
		harness.Side{Name: fmt.Sprintf("as of event %d", late-1), Run: look(snapshotEvery, late-1)})
	if err != nil {
		return nil, err
	}
	return []harness.Figure{harness.AtMost(travelSlower, harness.Figure{
		Name: "as_of_late", Value: samples[1].Median(), Unit: "ms", Ratio: samples[1].Over(samples[0]),
		To: fmt.Sprintf("as of event %d of %d, a snapshot each %d", earlyEvent-1, late, snapshotEvery),
	})}, nil
}
