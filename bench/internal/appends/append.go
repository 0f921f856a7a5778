// Package appends measures the cost of an append: bare, on conditions, and without tags.
package appends

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	appendClients = 8
	appendFor     = 3 * time.Second
	appendWarmUp  = 500 * time.Millisecond

	// The columns that tidemark.append fills, with numbers and ids from the caller.
	insertEvents = `
		INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
			payload_bytes, occurred_at, recorded_at)
		SELECT $1, e.seq, nextval('tidemark.journal_position'), e.id, $4, 1, 'projection_and_replay', e.payload, $6, now(),
			now()
		FROM unnest($2::bigint[], $3::uuid[], $5::jsonb[]) AS e (seq, id, payload)`
	insertEvent = `
		INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
			payload_bytes, occurred_at, recorded_at)
		VALUES ($1, $2, nextval('tidemark.journal_position'), $3, $4, 1, 'projection_and_replay', $5, $6, now(), now())`
)

// writer appends events in tx to a campaign whose last event is seq.
type writer func(ctx context.Context, tx pgx.Tx, campaign string, seq int64, payloads []json.RawMessage) error

// appendEvents appends as an application does.
func appendEvents(ctx context.Context, tx pgx.Tx, campaign string, _ int64, payloads []json.RawMessage) error {
	events := make([]event.Event, len(payloads))
	for i, payload := range payloads {
		events[i] = event.Event{Type: harness.EventType, Payload: payload}
	}
	_, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any, events...)
	return err
}

// insertRows is the minimum that writes the same rows to the journal: the caller knows the seq,
// nothing is checked, and no work is queued.
func insertRows(ctx context.Context, tx pgx.Tx, campaign string, seq int64, payloads []json.RawMessage) error {
	if len(payloads) == 1 {
		_, err := tx.Exec(ctx, insertEvent, campaign, seq+1, uuid.Must(uuid.NewV7()), harness.EventType, payloads[0],
			len(payloads[0]))
		return err
	}
	seqs, ids := make([]int64, len(payloads)), make([]uuid.UUID, len(payloads))
	for i := range payloads {
		seqs[i], ids[i] = seq+int64(i)+1, uuid.Must(uuid.NewV7())
	}
	_, err := tx.Exec(ctx, insertEvents, campaign, seqs, ids, harness.EventType, payloads, len(payloads[0]))
	return err
}

// appendRun runs clients that each write, transaction by transaction, for length.
type appendRun struct {
	perCall int
	length  time.Duration
	write   writer
	queued  bool // each event must be in the outbox afterwards
}

// run returns the events committed in a second.
func (r appendRun) run(ctx context.Context, db *harness.Database) (float64, error) {
	pool, err := db.Pool(ctx, appendClients)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	payloads := make([]json.RawMessage, r.perCall)
	for i := range payloads {
		if payloads[i], err = harness.DamagePayload(i + 1); err != nil {
			return 0, err
		}
	}

	var counted, all atomic.Int64
	from := time.Now().Add(appendWarmUp)
	until := from.Add(r.length)
	group, groupCtx := errgroup.WithContext(ctx)
	for client := range appendClients {
		group.Go(func() error {
			for call := 0; ; call++ {
				campaign := harness.CampaignID(client*harness.AppendCampaigns + call%harness.AppendCampaigns)
				seq := int64(call / harness.AppendCampaigns * r.perCall)
				err := pgx.BeginFunc(groupCtx, pool, func(tx pgx.Tx) error {
					return r.write(groupCtx, tx, campaign, seq, payloads)
				})
				if err != nil {
					return err
				}
				all.Add(int64(r.perCall))
				switch now := time.Now(); {
				case now.After(until):
					return nil
				case now.After(from):
					counted.Add(int64(r.perCall))
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	return float64(counted.Load()) / r.length.Seconds(), r.check(ctx, pool, int(all.Load()))
}

func (r appendRun) check(ctx context.Context, pool *pgxpool.Pool, want int) error {
	if err := harness.ExpectCount(ctx, pool, harness.CountJournal, want); err != nil {
		return err
	}
	if !r.queued {
		return nil
	}
	return harness.ExpectCount(ctx, pool, harness.CountOutbox, want)
}

func MeasureAppend(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))

	var figures []harness.Figure
	for _, f := range []struct {
		name    string
		perCall int
		limit   float64
	}{
		{"append_one", 1, 0.6},
		{"append_thousand", 1000, 0.7},
	} {
		side := func(name string, write writer, queued bool) harness.Side {
			run := appendRun{perCall: f.perCall, length: b.ScaledTime(appendFor), write: write, queued: queued}
			return b.On(template, fmt.Sprintf("%s, %d a call", name, f.perCall), run.run)
		}
		samples, err := b.Interleave(ctx, "events/s", side("append", appendEvents, true),
			side("bare INSERT", insertRows, false))
		if err != nil {
			return nil, err
		}
		figures = append(figures, harness.AtLeast(f.limit, harness.Figure{
			Name: f.name, Value: samples[0].Median(), Unit: "events/s", Ratio: samples[0].Over(samples[1]),
			To: fmt.Sprintf("bare INSERT into the journal, %d rows, %d clients", f.perCall, appendClients),
		}))
	}
	return figures, nil
}
