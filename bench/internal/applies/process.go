package applies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

const (
	copied          = "damage_copied" // the reaction to a harness.EventType
	campaignsCopied = 1000
	copiedEach      = 20   // events of each campaign, one at a time in turn
	copyPage        = 1000 // events in a transaction of the bare loop

	createCopies = createPlace + `;
		CREATE TABLE copies (key text COLLATE "C" PRIMARY KEY, damage bigint NOT NULL, events bigint NOT NULL)`
	readCopyPage = `SELECT "position", campaign_id, event_type, payload FROM tidemark.journal WHERE "position" > $1
		ORDER BY "position" LIMIT $2`
	upsertCopy = `INSERT INTO copies VALUES ($1, $2, 1) ON CONFLICT (key) DO UPDATE
		SET damage = copies.damage + EXCLUDED.damage, events = copies.events + 1`
	appendCopy   = `SELECT FROM tidemark.append($1, $2::jsonb)`
	countCopies  = `SELECT coalesce(sum(events), 0) FROM copies`
	countReacted = `SELECT coalesce(sum((doc ->> 'events')::bigint), 0) FROM copies`
)

// MeasureProcess lets a process append an event to another campaign for each event, and apply both,
// against a loop that does so by hand.
func MeasureProcess(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))
	each := b.Scaled(copiedEach)
	if err := fillInTurn(ctx, template, each); err != nil {
		return nil, err
	}
	total := 2 * each * campaignsCopied
	samples, err := b.Interleave(ctx, "events/s",
		b.On(template, "bare loop", func(ctx context.Context, db *harness.Database) (float64, error) {
			return onPool(ctx, db, total, copyByHand)
		}),
		b.On(template, "process", func(ctx context.Context, db *harness.Database) (float64, error) {
			return onPool(ctx, db, total, copyByProcess)
		}))
	if err != nil {
		return nil, err
	}
	return []harness.Figure{harness.AtLeast(0.3, harness.Figure{
		Name: "process", Value: samples[1].Median(), Unit: "events/s", Ratio: samples[1].Over(samples[0]),
		To: fmt.Sprintf("a bare loop, %d events that lead to as many", total/2),
	})}, nil
}

// fillInTurn appends one event to each campaign, then the next one.
func fillInTurn(ctx context.Context, db *harness.Database, each int) error {
	pool, err := db.Pool(ctx, harness.FillConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	for range each {
		w := harness.Workload{Campaigns: campaignsCopied, Events: 1, Whole: true}
		if err := w.Fill(ctx, pool); err != nil {
			return err
		}
	}
	pool.Close()
	return emptyQueue(ctx, db)
}

func onPool(
	ctx context.Context, db *harness.Database, total int, run func(context.Context, *pgxpool.Pool, int) error,
) (float64, error) {
	pool, err := db.Pool(ctx, 6)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	start := time.Now()
	err = run(ctx, pool, total)
	return float64(total) / time.Since(start).Seconds(), err
}

// copyByHand has one connection. Each page is a transaction of two round trips.
func copyByHand(ctx context.Context, pool *pgxpool.Pool, total int) error {
	if _, err := pool.Exec(ctx, createCopies); err != nil {
		return fmt.Errorf("create the read model: %w", err)
	}
	for after := int64(0); ; {
		before := after
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			after, err = copyPageByHand(ctx, tx, after)
			return err
		})
		if err != nil {
			return fmt.Errorf("bare loop: %w", err)
		}
		if after == before {
			return harness.ExpectCount(ctx, pool, countCopies, total)
		}
	}
}

func copyPageByHand(ctx context.Context, tx pgx.Tx, after int64) (int64, error) {
	rows, err := tx.Query(ctx, readCopyPage, after, copyPage)
	if err != nil {
		return after, err
	}
	var batch pgx.Batch
	var campaign, eventType string
	var payload json.RawMessage
	_, err = pgx.ForEachRow(rows, []any{&after, &campaign, &eventType, &payload}, func() error {
		var d harness.DamageTaken
		if err := json.Unmarshal(payload, &d); err != nil {
			return err
		}
		batch.Queue(upsertCopy, campaign, d.Damage)
		if eventType != harness.EventType {
			return nil
		}
		doc, err := json.Marshal([]map[string]any{{"type": copied, "payload": payload}})
		batch.Queue(appendCopy, "copy-of-"+campaign, doc)
		return err
	})
	if err != nil || batch.Len() == 0 {
		return after, err
	}
	batch.Queue(movePlace, after)
	return after, tx.SendBatch(ctx, &batch).Close()
}

// copyByProcess runs a worker until it has applied all events.
func copyByProcess(ctx context.Context, pool *pgxpool.Pool, total int) error {
	p, err := projector.New(projector.Config{
		Pool: pool, ConsumerGroup: harness.ConsumerGroup,
		Projections: []projection.Projection{copies()},
	})
	if err != nil {
		return err
	}
	if err := p.Register(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	for look := time.NewTicker(20 * time.Millisecond); ; {
		applied := 0
		select {
		case <-look.C:
			if err := pool.QueryRow(ctx, countReacted).Scan(&applied); err != nil {
				return fmt.Errorf("wait for the process: %w", err)
			}
		case err := <-ended:
			return errors.Join(err, errors.New("the worker ended before all was applied"))
		}
		if applied >= total {
			return nil
		}
	}
}

func copies() projection.Process[harness.Character] {
	return projection.Process[harness.Character]{
		Name: "copies", Version: 1, Types: []string{harness.EventType, copied}, From: new(int64),
		Key: func(e event.Event) (string, error) { return e.CampaignID, nil },
		Fold: func(c *harness.Character, e event.Event) error {
			d, err := event.Decode[harness.DamageTaken](e)
			c.Damage += d.Damage
			c.Events++
			return err
		},
		React: []projection.Reaction[harness.Character]{
			projection.React(harness.EventType, func(_ *harness.Character, e event.Event, _ harness.DamageTaken) ([]projection.Do, error) {
				return []projection.Do{{
					Campaign: "copy-of-" + e.CampaignID, Events: []event.Event{{Type: copied, Payload: e.Payload}},
				}}, nil
			}),
		},
	}
}
