package applies

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
)

// The settings of River's own benchmark: 2,000 workers, and these intervals.
const (
	riverWorkers      = 2000
	riverFetchPause   = 2 * time.Millisecond
	riverPollInterval = 20 * time.Millisecond
	riverInsertBatch  = 5000
)

type nothingArgs struct {
	Num int `json:"num"`
}

func (nothingArgs) Kind() string { return "nothing" }

type nothingWorker struct {
	river.WorkerDefaults[nothingArgs]
}

func (nothingWorker) Work(context.Context, *river.Job[nothingArgs]) error { return nil }

type damageArgs struct {
	CampaignID string `json:"campaign_id"`
	harness.DamageTaken
}

func (damageArgs) Kind() string { return harness.EventType }

// damageWorker runs the UPSERT and completes its job in one transaction, River's way to exactly
// once.
type damageWorker struct {
	river.WorkerDefaults[damageArgs]
	pool *pgxpool.Pool
}

func (w *damageWorker) Work(ctx context.Context, job *river.Job[damageArgs]) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, harness.UpsertCharacter, job.Args.CampaignID, job.Args.CharacterID,
			job.Args.Damage); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// riverBurnDown inserts the jobs, starts a client and returns how many jobs it completes in a
// second until none is left.
type riverBurnDown struct {
	workers     int
	connections int
	jobs        int
	add         func(workers *river.Workers, pool *pgxpool.Pool)
	args        func(i int) river.JobArgs
	check       string // a query for the number of jobs done; "": none
}

func (r riverBurnDown) run(ctx context.Context, db *harness.Database) (rate float64, err error) {
	pool, err := db.Pool(ctx, r.connections)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, harness.CreateCharacters); err != nil {
		return 0, fmt.Errorf("create the read model: %w", err)
	}
	driver := riverpgxv5.New(pool)
	logger := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: logger})
	if err != nil {
		return 0, fmt.Errorf("prepare River's migrations: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return 0, fmt.Errorf("migrate River's tables: %w", err)
	}
	workers := river.NewWorkers()
	r.add(workers, pool)
	client, err := river.NewClient(driver, &river.Config{
		FetchCooldown:     riverFetchPause,
		FetchPollInterval: riverPollInterval,
		Logger:            logger,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: r.workers}},
		Workers:           workers,
	})
	if err != nil {
		return 0, fmt.Errorf("make River's client: %w", err)
	}
	if err := r.insert(ctx, client); err != nil {
		return 0, err
	}
	if err := db.Settle(ctx); err != nil {
		return 0, err
	}

	// Use the subscription, because it counts a job only once the completer has written it.
	completed, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: r.jobs + 1,
		Kinds:    []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed},
	})
	defer unsubscribe()
	start := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, fmt.Errorf("start River: %w", err)
	}
	defer func() {
		if stopErr := client.Stop(context.WithoutCancel(ctx)); err == nil && stopErr != nil {
			err = fmt.Errorf("stop River: %w", stopErr)
		}
	}()
	for range r.jobs {
		select {
		case event := <-completed:
			if event.Kind != river.EventKindJobCompleted {
				return 0, fmt.Errorf("River's job %d failed: %v", event.Job.ID, event.Job.Errors)
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	rate = float64(r.jobs) / time.Since(start).Seconds()
	if r.check != "" {
		err = harness.ExpectCount(ctx, pool, r.check, r.jobs)
	}
	return rate, err
}

func (r riverBurnDown) insert(ctx context.Context, client *river.Client[pgx.Tx]) error {
	for first := 0; first < r.jobs; first += riverInsertBatch {
		batch := make([]river.InsertManyParams, 0, riverInsertBatch)
		for i := first; i < min(first+riverInsertBatch, r.jobs); i++ {
			batch = append(batch, river.InsertManyParams{Args: r.args(i)})
		}
		if _, err := client.InsertManyFast(ctx, batch); err != nil {
			return fmt.Errorf("insert River's jobs: %w", err)
		}
	}
	return nil
}

// riverNothing is River's own benchmark, with jobs that do nothing.
func riverNothing(jobs int) riverBurnDown {
	return riverBurnDown{
		workers: riverWorkers, connections: 10, jobs: jobs,
		add:  func(workers *river.Workers, _ *pgxpool.Pool) { river.AddWorker(workers, nothingWorker{}) },
		args: func(i int) river.JobArgs { return nothingArgs{Num: i} },
	}
}

// riverUpsert has jobs that run the UPSERT and complete in its transaction.
func riverUpsert(jobs int) riverBurnDown {
	return riverBurnDown{
		workers: 100, connections: 20, jobs: jobs,
		add: func(workers *river.Workers, pool *pgxpool.Pool) { river.AddWorker(workers, &damageWorker{pool: pool}) },
		args: func(i int) river.JobArgs {
			return damageArgs{CampaignID: harness.CampaignID(i % 1000), DamageTaken: harness.DamageAt(i)}
		},
		check: harness.CountCharacters,
	}
}
