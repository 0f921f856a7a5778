package scheduler_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/scheduler"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// run runs a scheduler, which only polls, until the test ends.
func run(t *testing.T, pool *pgxpool.Pool, poll time.Duration) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewRegistry()
	s, err := scheduler.New(scheduler.Config{
		Pool: pool, Logger: slog.New(slog.DiscardHandler), Registerer: registry, PollInterval: poll,
		Timeout: time.Minute, Pulse: &loops.Pulse{},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return registry
}

// due schedules one append to each campaign, due now.
func due(t *testing.T, pool *pgxpool.Pool, campaigns ...string) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, campaign := range campaigns {
			if _, err := (journal.Journal{}).AppendAt(t.Context(), tx, campaign, time.Time{}, event.Event{Type: "due"}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

const fired = `SELECT EXISTS (SELECT FROM tidemark.journal WHERE event_type = 'due' AND campaign_id = $1)`

func firedIn(pool *pgxpool.Pool, campaign string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (yes bool, err error) {
		err = pool.QueryRow(ctx, fired, campaign).Scan(&yes)
		return yes, err
	}
}

func TestASchedulerThatOnlyPollsGoesOnAfterFailures(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tally.Exec(t, pool, `CREATE SEQUENCE public.faults`)
	tally.Exec(t, pool, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM nextval('public.faults');
		RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'; END $$`)
	tally.Exec(t, pool, `CREATE TRIGGER full_disk BEFORE INSERT ON tidemark.journal FOR EACH ROW
		EXECUTE FUNCTION full_disk()`)
	due(t, pool, "a")
	registry := run(t, pool, 10*time.Millisecond)
	tally.Eventually(t, "it has failed three times", tally.Holds(pool, `SELECT last_value >= 3 FROM public.faults`))
	tally.Exec(t, pool, `DROP TRIGGER full_disk ON tidemark.journal`)
	tally.Eventually(t, "the append is made", firedIn(pool, "a"))
	tally.Eventually(t, "it is counted", func(context.Context) (bool, error) {
		families, err := registry.Gather()
		return err == nil && families[0].GetName() == "tidemark_scheduled_fired_total" &&
			families[0].GetMetric()[0].GetCounter().GetValue() == 1, err
	})
}

func TestACampaignWhoseLockAlwaysHasAQueueGetsItsTurn(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	t.Cleanup(func() { stop(); writers.Wait() })
	for range 3 { // one holds the lock, two wait for it
		writers.Go(func() {
			for ctx.Err() == nil {
				_ = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, `SELECT tidemark.lock_campaign('busy'), pg_sleep(0.03)`)
					return err
				})
			}
		})
	}
	tally.Eventually(t, "the lock has a queue", tally.Holds(pool, `SELECT count(*) >= 2 FROM pg_locks
		WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database
			WHERE datname = current_database())`))
	due(t, pool, "busy")
	run(t, pool, time.Hour)
	tally.Eventually(t, "the append is made", firedIn(pool, "busy"))
}

func TestAnIdleTransactionDelaysItsCampaignAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	idle, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (journal.Journal{}).Append(t.Context(), idle, "a", journal.Any, event.Event{Type: "open"}); err != nil {
		t.Fatal(err)
	}
	run(t, pool, 50*time.Millisecond)
	due(t, pool, "a")
	for range 20 {
		due(t, pool, "b")
		tally.Eventually(t, "others go on", tally.Holds(pool, `SELECT NOT EXISTS (SELECT FROM tidemark.scheduled
			WHERE campaign_id = 'b')`))
	}
	if err := idle.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	tally.Eventually(t, "the campaign goes on", firedIn(pool, "a"))
}
