package projector_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// poll keeps reading how many moves each campaign has, until done. No count may drop, and no
// campaign may vanish.
func poll(ctx context.Context, pool *pgxpool.Pool, sql string, done *atomic.Bool, reads *atomic.Int64) error {
	before := map[string]int64{}
	tick := time.NewTicker(5 * time.Millisecond) // readers without pauses would take the processors from the workers
	defer tick.Stop()
	for ; !done.Load(); <-tick.C {
		rows, err := pool.Query(ctx, sql)
		if err != nil {
			return err
		}
		now, campaign, count := map[string]int64{}, "", int64(0)
		if _, err := pgx.ForEachRow(rows, []any{&campaign, &count}, func() error {
			now[campaign] = count
			return nil
		}); err != nil {
			return err
		}
		for campaign, n := range before {
			if now[campaign] < n {
				return fmt.Errorf("%s: campaign %s had %d moves, now %d", sql, campaign, n, now[campaign])
			}
		}
		if len(now) == 0 {
			return errors.New(sql + ": the table is empty")
		}
		before = now
		reads.Add(1)
	}
	return nil
}

func TestReadersSeeNothingOfARebuild(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	first := workerOf(t, pool, nil, counters())
	moveAll(t, pool, 1)
	drain(t, first)
	exec(t, pool, `CREATE VIEW seen AS SELECT campaign_id, (doc->>'count')::bigint AS moves FROM counters`)
	exec(t, pool, `CREATE SCHEMA reports`)
	exec(t, pool, `CREATE VIEW reports.seen AS SELECT s.campaign_id, s.moves FROM tidemark_views.seen s
		JOIN tidemark_views.counters c USING (campaign_id)`)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers, clients errgroup.Group
	for range 2 {
		p := workerOf(t, pool, func(c *projector.Config) {
			c.PollInterval, c.GroupEvents, c.Concurrency = 100*time.Millisecond, 20, 2
		}, counters())
		workers.Go(func() error { return p.Run(ctx) })
	}
	var done atomic.Bool
	var reads atomic.Int64
	for _, sql := range []string{
		`SELECT campaign_id, (doc->>'count')::bigint
			FROM counters`, `SELECT campaign_id, moves
			FROM seen`, `SELECT campaign_id, moves
			FROM reports.seen`,
	} {
		clients.Go(func() error { defer done.Store(true); return poll(ctx, pool, sql, &done, &reads) })
	}
	clients.Go(func() error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; !done.Load(); i++ {
			moveAll(t, pool, i)
			<-tick.C
		}
		return nil
	})
	clients.Go(func() error {
		defer done.Store(true)
		share := 1.0
		for i := range 3 {
			if _, err := rebuild.StartRebuild(ctx, pool, "counters", rebuild.Options{MaxShare: &share},
				failed.Act{By: "ada"}); err != nil {
				return err
			}
			within(t, "it is rebuilt", func() bool {
				return done.Load() || query[int](t, pool, `SELECT count(*) FROM tidemark.failure_log WHERE act = 'rebuilt'`) == i+1
			})
			if err := rollback(ctx, pool, "counters"); err != nil {
				return err
			}
		}
		return nil
	})
	if err := clients.Wait(); err != nil {
		t.Error(err)
	}
	within(t, "all is applied", func() bool {
		return query[bool](t, pool, `SELECT NOT EXISTS (SELECT FROM tidemark.outbox)
			AND NOT EXISTS (SELECT FROM tidemark.failed)`)
	})
	stop()
	if err := workers.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d reads", reads.Load())
	expectText(t, pool, "moves", "0", `SELECT count(*)::text FROM counters c
		WHERE (c.doc->>'count')::bigint <> (SELECT max(j.seq) FROM tidemark.journal j WHERE j.campaign_id = c.campaign_id)`)
}

// rollback retries until the previous tables have caught up and no lock is in the way.
func rollback(ctx context.Context, pool *pgxpool.Pool, name string) error {
	for {
		err := rebuild.Rollback(ctx, pool, name, rebuild.RollbackOptions{}, failed.Act{By: "ada"})
		var pgErr *pgconn.PgError
		if busy := errors.As(err, &pgErr) && (pgErr.Code == "55P03" || pgErr.Code == "40P01"); !busy &&
			!errors.Is(err, rebuild.ErrBehind) || ctx.Err() != nil {
			return err
		}
	}
}
