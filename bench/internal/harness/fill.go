package harness

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	FillConnections  = 4
	eventsPerFill    = 5000 // in one transaction
	campaignsPerFill = 250  // in one transaction; more would lock buckets of campaigns and serialise the connections

	// One work item for each event, as if it had been appended by itself: the maximum number of
	// items.
	splitOutbox = `
		WITH gone AS (DELETE FROM tidemark.outbox RETURNING *)
		INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
		SELECT g.consumer_group, g.campaign_id, s, g.enqueued_at, 1
		FROM gone g CROSS JOIN LATERAL generate_series(g.seq - g.events + 1, g.seq) AS s`
)

// Fill appends the workload's events as an application would, in larger batches.
func (w Workload) Fill(ctx context.Context, pool *pgxpool.Pool) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(FillConnections)
	if w.Characters > 0 {
		group.SetLimit(1) // the journal is in the order of campaigns
	}
	step := max(1, min(campaignsPerFill, eventsPerFill/w.Events))
	for first := 0; first < w.Campaigns; first += step {
		group.Go(func() error {
			batches := make([]journal.Batch, 0, step)
			for i := first; i < min(first+step, w.Campaigns); i++ {
				events, err := w.events(i)
				if err != nil {
					return err
				}
				batches = append(batches, journal.Batch{CampaignID: CampaignID(i), Events: events})
			}
			return pgx.BeginFunc(groupCtx, pool, func(tx pgx.Tx) error {
				_, err := journal.Journal{}.AppendAll(groupCtx, tx, batches...)
				return err
			})
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("fill the journal: %w", err)
	}
	if w.Whole {
		return nil
	}
	if _, err := pool.Exec(ctx, splitOutbox); err != nil {
		return fmt.Errorf("fill the outbox: %w", err)
	}
	return nil
}

// Filled creates a database with the workload as its backlog.
func (b *Bench) Filled(ctx context.Context, w Workload) (*Database, error) {
	db, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := db.Pool(ctx, FillConnections)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if err := w.Fill(ctx, pool); err != nil {
		return nil, err
	}
	pool.Close()
	return db, db.Settle(ctx)
}
