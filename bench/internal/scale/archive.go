package scale

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/archive"
)

const (
	archiveCampaigns = 10_000
	archiveEvents    = 100 // in each
	archiveRate      = 50_000
	archiveAppenders = 2
	archiveAlone     = 5 * time.Second
	// archiveCalm is the --rate of a run beside as many appends as the clients can make.
	archiveCalm   = 5_000
	archiveSteady = 1000 // appends a second beside a run with a --rate of archiveRate

	withoutGroups = `DELETE FROM tidemark.outbox; DELETE FROM tidemark.consumer_groups`
	// sumJournal does not depend on the order of rows.
	sumJournal = `SELECT count(*) || ' ' || sum(hashtextextended(j::text, 0)::numeric) FROM tidemark.journal j
		WHERE campaign_id LIKE 'campaign-%'`
	appendOne = `SELECT tidemark.append($1, '[{"type": "damage_taken", "payload": {"damage": 7, "source": "a trap"}}]')`
)

// archiving moves campaigns to a folder and back.
type archiving struct {
	pool  *pgxpool.Pool
	store *archive.Folder
	rate  int
}

func (a archiving) archive(ctx context.Context) (float64, error) {
	start := time.Now()
	done, err := archive.Run(ctx, a.pool, a.store, archive.Request{
		Types: []string{harness.EventType}, ClosedFor: time.Second, Rate: a.rate, By: "bench", Reason: "a measure",
	})
	if err == nil && done.LeftOut > 0 {
		err = fmt.Errorf("archived %+v", done)
	}
	return float64(done.Events) / time.Since(start).Seconds(), err
}

func (a archiving) restore(ctx context.Context) (float64, error) {
	start := time.Now()
	done, err := archive.Restore(ctx, a.pool, a.store, archive.RestoreRequest{All: true, Rate: a.rate})
	return float64(done.Events) / time.Since(start).Seconds(), err
}

// MeasureArchive archives a million events and restores them, and measures appends meanwhile.
func MeasureArchive(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Filled(ctx, harness.Workload{
		Campaigns: b.Scaled(archiveCampaigns), Events: archiveEvents, Whole: true,
	})
	if err != nil {
		return nil, err
	}
	var there, back, alone, beside, steadyAlone, steady harness.Samples
	for round := range b.Rounds {
		if err := func() error {
			db, err := b.Server.Clone(ctx, template.Name)
			if err != nil {
				return err
			}
			defer func() { _ = db.Drop(context.WithoutCancel(ctx)) }()
			pool, err := db.Pool(ctx, archiveAppenders+4)
			if err != nil {
				return err
			}
			defer pool.Close()
			folder, err := os.MkdirTemp("", "tidemark-archive")
			if err != nil {
				return err
			}
			defer func() { _ = os.RemoveAll(folder) }()
			store, err := archive.NewFolder(folder)
			if err != nil {
				return err
			}
			defer func() { _ = store.Close() }()
			if _, err := pool.Exec(ctx, withoutGroups); err != nil {
				return err
			}
			var before, after string
			if err := pool.QueryRow(ctx, sumJournal).Scan(&before); err != nil {
				return err
			}
			a := archiving{pool: pool, store: store}
			rate, err := a.archive(ctx)
			if err != nil {
				return err
			}
			there = append(there, rate)
			if rate, err = a.restore(ctx); err != nil {
				return err
			}
			back = append(back, rate)
			if err := pool.QueryRow(ctx, sumJournal).Scan(&after); err != nil {
				return err
			}
			if before != after {
				return fmt.Errorf("the journal was %s and is %s", before, after)
			}
			idle := func(ctx context.Context) error {
				select {
				case <-ctx.Done():
				case <-time.After(b.ScaledTime(archiveAlone)):
				}
				return nil
			}
			n, err := appendsFor(ctx, pool, archiveSteady, idle)
			if err != nil {
				return err
			}
			steadyAlone = append(steadyAlone, n)
			a.rate = archiveRate
			n, err = appendsFor(ctx, pool, archiveSteady, func(ctx context.Context) error {
				rate, err := a.archive(ctx)
				b.Logf("round %d  archived %.0f events/s beside %d appends/s", round+1, rate, archiveSteady)
				return err
			})
			if err != nil {
				return err
			}
			steady = append(steady, n)
			a.rate = 0
			if _, err := a.restore(ctx); err != nil {
				return err
			}
			if n, err = appendsFor(ctx, pool, 0, idle); err != nil {
				return err
			}
			alone = append(alone, n)
			a.rate = archiveCalm
			n, err = appendsFor(ctx, pool, 0, func(ctx context.Context) error {
				ctx, stop := context.WithTimeout(ctx, 2*b.ScaledTime(archiveAlone))
				defer stop()
				if _, err := a.archive(ctx); err != nil && ctx.Err() == nil {
					return err
				}
				return nil
			})
			beside = append(beside, n)
			b.Logf("round %d  archived %.0f, restored %.0f events/s; appends alone %.0f/s, beside a run of %d events/s %.0f/s",
				round+1, there[round], back[round], alone[round], archiveCalm, n)
			return err
		}(); err != nil {
			return nil, err
		}
	}
	limit := make(harness.Samples, len(there))
	for i := range limit {
		limit[i] = archiveRate
	}
	to := fmt.Sprintf("%d a second", archiveRate)
	return []harness.Figure{
		harness.AtLeast(1, harness.Figure{
			Name: "archive", Value: there.Median(), Unit: "events/s", Ratio: there.Over(limit), To: to,
		}),
		harness.AtLeast(1, harness.Figure{
			Name: "archive_restore", Value: back.Median(), Unit: "events/s", Ratio: back.Over(limit), To: to,
		}),
		harness.AtLeast(0.9, harness.Figure{
			Name: "archive_appends_steady", Value: steady.Median(), Unit: "appends/s", Ratio: steady.Over(steadyAlone),
			To: fmt.Sprintf("the same without a run, with %d a second to make", archiveSteady),
		}),
		harness.AtLeast(0.9, harness.Figure{
			Name: "archive_appends", Value: beside.Median(), Unit: "appends/s", Ratio: beside.Over(alone), To: "appends alone",
		}),
	}, nil
}

// appendsFor returns the appends a second to open campaigns while work runs, of so many that are to be
// made; 0: as many as the clients can.
func appendsFor(
	ctx context.Context, pool *pgxpool.Pool, rate int, work func(context.Context) error,
) (float64, error) {
	var n atomic.Int64
	var stop atomic.Bool
	var failed error
	var once sync.Once
	var appenders sync.WaitGroup
	start := time.Now()
	for client := range archiveAppenders {
		appenders.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if rate > 0 {
					time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second * archiveAppenders / time.Duration(rate))))
				}
				if _, err := pool.Exec(ctx, appendOne, fmt.Sprintf("open-%d-%d", client, i%harness.AppendCampaigns)); err != nil {
					once.Do(func() { failed = err })
					return
				}
				n.Add(1)
			}
		})
	}
	err := work(ctx)
	made := float64(n.Load()) / time.Since(start).Seconds()
	stop.Store(true)
	appenders.Wait()
	if err == nil {
		err = failed
	}
	return made, err
}
