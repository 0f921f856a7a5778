package projector_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestWhatIsCancelledBeforeItsDeadlineCountsNoAttempt(t *testing.T) {
	t.Parallel()
	waiting := func(ctx context.Context, g *projection.Group, _ event.Event) error {
		tx, err := g.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `SELECT pg_sleep(60)`)
		return err
	}
	const states = `SELECT string_agg(DISTINCT concat_ws(' ', projection, status, attempt_count, error_class, error_code),
		', ') FROM tidemark.failed`
	expectWaits := func(t *testing.T, pool *pgxpool.Pool, p *projector.Projector) {
		t.Helper()
		drain(t, p)
		expectText(t, pool, "pairs", "slow failed 0 infrastructure 57014", states)
	}
	t.Run("by_an_operator", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p := slowProjector(t, pool, sluggish(time.Minute, waiting), nil)
		appendSlow(t, pool)
		var operator sync.WaitGroup
		var done atomic.Bool
		operator.Go(func() {
			for !done.Load() && t.Context().Err() == nil {
				if _, err := pool.Exec(t.Context(), `SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
					WHERE datname = current_database() AND query LIKE '%pg_sleep(60)%'
					AND wait_event = 'PgSleep'`); err != nil {
					t.Error(err)
					return
				}
			}
		})
		expectWaits(t, pool, p)
		done.Store(true)
		operator.Wait()
	})
	t.Run("by_a_lower_setting_of_the_role", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p := slowProjector(t, pool, sluggish(time.Minute, waiting), nil)
		if err := p.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		appendSlow(t, pool)
		if _, err := pool.Exec(t.Context(), query[string](t, pool,
			`SELECT format('ALTER DATABASE %I SET statement_timeout = ''1s''', current_database())`)); err != nil {
			t.Fatal(err)
		}
		pool.Reset()
		expectWaits(t, pool, p)
	})
	t.Run("for_a_lock_that_is_held_too_long", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p := slowProjector(t, pool, sluggish(time.Minute, func(context.Context, *projection.Group, event.Event) error {
			return nil
		}), func(cfg *projector.Config) { cfg.ApplyTimeout = time.Minute })
		if err := p.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		appendSlow(t, pool)
		alter := func(format string) {
			if _, err := pool.Exec(t.Context(), query[string](t, pool, `SELECT format($1, current_database())`,
				format)); err != nil {
				t.Fatal(err)
			}
			pool.Reset()
		}
		alter(`ALTER DATABASE %I SET lock_timeout = '300ms'`)
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `LOCK TABLE slow`); err != nil {
			t.Fatal(err)
		}
		drain(t, p)
		expectText(t, pool, "pairs", "slow failed 0 lock 55P03", states)
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		alter(`ALTER DATABASE %I RESET lock_timeout`)
		retry(t, pool, p)
		if n := query[int](t, pool, `SELECT count(*) FROM slow`); n != 6 {
			t.Errorf("%d rows, want 6", n)
		}
	})
}
