// Package publishes measures how fast the relay publishes, and its cost for concurrent appends.
package publishes

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

const (
	publishConnections = publisher.Connections + 1 // one of them listens

	streamJournal = `SELECT campaign_id, seq, position, event_id, event_type, event_version, intent, aggregate_type,
		aggregate_id, actor, tags, payload, metadata, occurred_at, recorded_at
		FROM tidemark.journal ORDER BY position`
)

// stream reads the journal with one statement and decodes the same rows. It returns the events in a
// second, from the first event on.
func stream(events int) func(context.Context, *harness.Database) (float64, error) {
	return func(ctx context.Context, db *harness.Database) (float64, error) {
		conn, err := db.Connect(ctx)
		if err != nil {
			return 0, fmt.Errorf("stream: %w", err)
		}
		defer conn.Close(context.WithoutCancel(ctx))
		rows, err := conn.Query(ctx, streamJournal)
		if err != nil {
			return 0, fmt.Errorf("stream: %w", err)
		}
		var aggregateType, aggregateID, actor *string
		var first time.Time
		n := 0
		for rows.Next() {
			if n == 0 {
				first = time.Now()
			}
			var e event.Event
			var id uuid.UUID
			// Scan into bytes: pgx would decode a json.RawMessage as JSON.
			if err := rows.Scan(&e.CampaignID, &e.Seq, &e.Position, (*[16]byte)(&id), &e.Type, &e.Version, &e.Intent,
				&aggregateType, &aggregateID, &actor, &e.Tags,
				(*[]byte)(&e.Payload), (*[]byte)(&e.Metadata), &e.OccurredAt, &e.RecordedAt); err != nil {
				return 0, fmt.Errorf("stream: %w", err)
			}
			n++
		}
		if err := rows.Err(); err != nil || n != events {
			return 0, fmt.Errorf("stream: %d of %d events: %w", n, events, err)
		}
		return float64(n) / time.Since(first).Seconds(), nil
	}
}

func MeasurePublish(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	w := harness.Workload{Campaigns: b.Scaled(5000), Events: 200}
	template, err := b.Filled(ctx, w)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))
	few := harness.Workload{Campaigns: b.Scaled(100), Events: 10}
	small, err := b.Filled(ctx, few)
	if err != nil {
		return nil, err
	}
	defer small.Drop(context.WithoutCancel(ctx))
	var used int32
	samples, err := b.Interleave(ctx, "events/s",
		b.On(template, "relay to a discarding sink", relaying{events: w.Total(), pairs: 1}.run),
		b.On(template, "bare SELECT, decoded", stream(w.Total())),
		b.On(small, fmt.Sprintf("relay, %d pairs", harness.PublishPairs),
			relaying{events: few.Total(), pairs: harness.PublishPairs, used: &used}.run),
	)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{
		harness.AtLeast(0.5, harness.Figure{
			Name: "publish_discard", Value: samples[0].Median(), Unit: "events/s", Ratio: samples[0].Over(samples[1]),
			To: fmt.Sprintf("a bare SELECT … ORDER BY position that decodes the same %d rows", w.Total()),
		}),
		harness.AtMost(1, harness.Figure{
			Name: "publish_connections", Value: float64(used), Unit: "connections", Ratio: float64(used) / publishConnections,
			To: fmt.Sprintf("%d connections, with %d pairs on one replica", publishConnections, harness.PublishPairs),
		}),
	}, nil
}
