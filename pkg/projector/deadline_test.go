package projector_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// given runs try with a timeout that only slow events exceed. That time depends on the machine and
// its load, so after a failure given starts again with a timeout four times as long. The test fails
// if try still fails with a timeout above half a minute.
func given(t *testing.T, try func(t *testing.T, timeout time.Duration) error) {
	t.Helper()
	for timeout := 500 * time.Millisecond; ; timeout *= 4 {
		err := try(t, timeout)
		if err == nil {
			return
		}
		if timeout > 30*time.Second {
			t.Fatalf("with a timeout of %v: %v", timeout, err)
		}
		t.Logf("with a timeout of %v: %v", timeout, err)
	}
}

// endless is the amount that makes the projection "slow" call the test's function.
const endless = -7

// sluggish writes a row for each event. For the amount endless it calls do first.
func sluggish(
	timeout time.Duration, do func(context.Context, *projection.Group, event.Event) error,
) projection.Projection {
	return projection.Handlers{
		Name: "slow", Version: 1, Tables: `CREATE TABLE slow (campaign_id text, seq bigint, PRIMARY KEY (campaign_id, seq))`,
		OnFailure: projection.Policy{Timeout: timeout, Base: time.Hour, Max: time.Hour},
		On: []projection.Handler{
			projection.Handle("moved", func(ctx context.Context, g *projection.Group, e event.Event, m moved) error {
				if m.By == endless {
					if err := do(ctx, g, e); err != nil {
						return err
					}
				}
				g.Queue(`INSERT INTO slow VALUES ($1, $2)`, e.CampaignID, e.Seq)
				return nil
			}),
		},
	}
}

// untilTold is a handler that obeys its context.
func untilTold(ctx context.Context, _ *projection.Group, _ event.Event) error {
	<-ctx.Done()
	return ctx.Err()
}

func slowProjector(
	t *testing.T, pool *pgxpool.Pool, one projection.Projection, change func(*projector.Config),
) *projector.Projector {
	t.Helper()
	if err := outbox.Register(t.Context(), pool, "default"); err != nil {
		t.Fatal(err)
	}
	cfg := projector.Config{Pool: pool, Projections: []projection.Projection{one, ledger()}}
	if change != nil {
		change(&cfg)
	}
	p, err := projector.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// expectLate expects the projection "slow" to have exceeded its deadline at event 2 of campaign b.
// Nothing else may be behind.
func expectLate(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	if s := query[string](t, pool, `SELECT coalesce(string_agg(concat_ws(' ', projection, campaign_id, next_seq, status,
		error_class, error_code, attempt_count), ', '), '')
		FROM tidemark.failed`); s != "slow b 2 failed transient deadline 1" {
		return fmt.Errorf("failed: %q", s)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM slow`); n != 4 {
		return fmt.Errorf("the slow projection has %d rows, want 4", n)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM ledger`); n != 6 {
		return fmt.Errorf("the other projection has %d rows, want 6", n)
	}
	return nil
}

func appendSlow(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	appendMoves(t, pool, "a", 1)
	appendMoves(t, pool, "b", 1, endless, 3)
	appendMoves(t, pool, "c", 1, 2)
}

func TestADeadline(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(context.Context, *projection.Group, event.Event) error{
		"of_a_handler_that_obeys_its_context": untilTold,
		"of_a_statement_that_was_queued": func(_ context.Context, g *projection.Group, _ event.Event) error {
			g.Queue(`SELECT pg_sleep(60)`)
			return nil
		},
		"of_a_statement_of_its_own": func(ctx context.Context, g *projection.Group, _ event.Event) error {
			tx, err := g.Tx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `SELECT pg_sleep(60)`)
			return err
		},
		"of_a_statement_under_another_context": func(ctx context.Context, g *projection.Group, _ event.Event) error {
			tx, err := g.Tx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.Exec(context.WithoutCancel(ctx), `SELECT pg_sleep(60)`)
			return err
		},
	} {
		t.Run(name+"_defers_its_pair_alone", func(t *testing.T) {
			t.Parallel()
			given(t, func(t *testing.T, timeout time.Duration) error {
				pool := pgtest.New(t)
				p := slowProjector(t, pool, sluggish(timeout, do), nil)
				appendSlow(t, pool)
				if _, err := p.Drain(t.Context()); err != nil {
					return err
				}
				return expectLate(t, pool)
			})
		})
	}
	t.Run("is_no_failure_of_events_that_are_slow_only_together", func(t *testing.T) {
		t.Parallel()
		given(t, func(t *testing.T, timeout time.Duration) error {
			pool := pgtest.New(t)
			p := slowProjector(t, pool, sluggish(timeout, func(ctx context.Context, g *projection.Group, e event.Event) error {
				if len(g.Events) > 10 {
					return untilTold(ctx, g, e)
				}
				return nil
			}), func(cfg *projector.Config) { cfg.GroupEvents = 30 })
			amounts := make([]int, 30)
			for i := range amounts {
				amounts[i] = endless
			}
			appendMoves(t, pool, "a", amounts...)
			if _, err := p.Drain(t.Context()); err != nil {
				return err
			}
			if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failure_log`); n > 0 {
				return fmt.Errorf("%d failures", n)
			}
			if n := query[int](t, pool, `SELECT count(*) FROM slow`); n != len(amounts) {
				return fmt.Errorf("%d rows, want %d", n, len(amounts))
			}
			return nil
		})
	})
	t.Run("is_that_of_the_events_type", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		h := &projection.Handlers{
			Name: "typed", Version: 1, OnFailureOf: map[string]projection.Policy{"moved": {
				Timeout: 300 * time.Millisecond,
				Action:  projection.ActionDead,
			}},
			On: []projection.Handler{
				projection.Handle("moved", func(ctx context.Context, g *projection.Group, e event.Event, _ moved) error {
					return untilTold(ctx, g, e)
				}),
			},
		}
		p := slowProjector(t, pool, h, func(cfg *projector.Config) { cfg.ApplyTimeout = time.Hour })
		appendMoves(t, pool, "a", 1)
		drainUntilDead(t, pool, p)
		if s := query[string](t, pool, `SELECT status || ' ' || error_code FROM tidemark.failed`); s != "dead deadline" {
			t.Error(s)
		}
	})
	t.Run("may_lie_beyond_the_life_of_a_lease", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p := slowProjector(t, pool, sluggish(0, func(ctx context.Context, _ *projection.Group, _ event.Event) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(1500 * time.Millisecond):
				return nil
			}
		}), func(cfg *projector.Config) { cfg.LeaseTTL = time.Second })
		appendSlow(t, pool)
		if _, err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := query[int](t, pool, `SELECT count(*) FROM slow`); n != 6 {
			t.Errorf("%d rows, want 6", n)
		}
	})
	t.Run("passed_again_and_again_makes_the_pair_dead", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		h := &projection.Handlers{
			Name: "late", Version: 1, OnFailure: projection.Policy{
				Timeout: 300 * time.Millisecond, Attempts: 3,
				Base: time.Millisecond, Max: time.Millisecond,
			},
			On: []projection.Handler{
				projection.Handle("moved", func(ctx context.Context, g *projection.Group, e event.Event, _ moved) error {
					return untilTold(ctx, g, e)
				}),
			},
		}
		p := slowProjector(t, pool, h, nil)
		appendMoves(t, pool, "a", 1)
		drainUntilDead(t, pool, p)
		if s := query[string](t, pool, `SELECT concat_ws(' ', error_class, error_code, attempt_count)
			FROM tidemark.failed`); s != "transient deadline 3" {
			t.Error(s)
		}
	})
}

// drainUntilDead drains until a campaign is dead. On a busy machine the projection's short limit
// can cancel a statement of the projector itself. That counts as an infrastructure failure, and
// drainUntilDead retries it.
func drainUntilDead(t *testing.T, pool *pgxpool.Pool, p *projector.Projector) {
	t.Helper()
	within(t, "a pair is dead", func() bool {
		if _, err := p.Drain(t.Context()); err != nil && !failure.IsInfrastructure(err) {
			t.Fatal(err)
		}
		return query[int](t, pool, `SELECT count(*) FROM tidemark.failed WHERE status = 'dead'`) > 0
	})
}

func TestALockIsWaitedForHalfASecond(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var limits string
	p := slowProjector(t, pool, sluggish(time.Minute,
		func(ctx context.Context, g *projection.Group, _ event.Event) error {
			tx, err := g.Tx(ctx)
			if err != nil {
				return err
			}
			return tx.QueryRow(ctx, `SELECT concat_ws(' ', current_setting('lock_timeout'),
			current_setting('statement_timeout'))`).Scan(&limits)
		}), func(cfg *projector.Config) { cfg.ApplyTimeout = time.Minute })
	appendSlow(t, pool)
	if _, err := p.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if limits != "500ms 1min" {
		t.Errorf("locks and statements are waited for up to %s", limits)
	}
}

// TestADeadlineOfManyEventsBlamesNone isolates a group for another reason first. There the worker
// meets the handler that does not return.
func TestADeadlineOfManyEventsBlamesNone(t *testing.T) {
	t.Parallel()
	given(t, func(t *testing.T, timeout time.Duration) error {
		pool := pgtest.New(t)
		release := make(chan struct{})
		var stuck sync.WaitGroup
		stuck.Add(1) // held until the release, so no handler starts during Wait
		defer stuck.Wait()
		defer stuck.Done()
		defer close(release)
		picky := newPicky(func(s *projection.Spec) { s.OnFailure = slow("") }).failWith(func(_ *projection.Group,
			e event.Event, _ moved,
		) error {
			if e.Seq == 1 {
				return errors.New("it does not like the first")
			}
			return nil
		})
		p := slowProjector(t, pool, picky, func(cfg *projector.Config) {
			cfg.Projections = []projection.Projection{
				picky,
				sluggish(timeout, func(context.Context, *projection.Group, event.Event) error {
					stuck.Add(1)
					defer stuck.Done()
					stuckHere(release)
					return nil
				}),
			}
		})
		appendMoves(t, pool, "b", 1, 2, endless, 4)
		if _, err := p.Drain(t.Context()); err != nil {
			return err
		}
		if s := query[string](t, pool, `SELECT string_agg(concat_ws(' ', projection, next_seq, error_code), ', '
			ORDER BY projection) FROM tidemark.failed`); s != "picky 1 error, slow 3 deadline" {
			return errors.New(s)
		}
		return nil
	})
}

// metric returns the sum of a metric's values.
func metric(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return sum
}
