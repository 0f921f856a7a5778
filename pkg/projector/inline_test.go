package projector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func inlineProjector(t *testing.T, pool *pgxpool.Pool, cfg projector.Config) *projector.Projector {
	t.Helper()
	cfg.Pool = pool
	if cfg.Mode == "" && !cfg.InlineBestEffort {
		cfg.Mode = projection.ModeInlineApplyOnly
	}
	p, err := projector.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func moveEvents(by ...int) []event.Event {
	events := make([]event.Event, len(by))
	for i, b := range by {
		events[i] = event.Event{Type: "moved", Payload: fmt.Appendf(nil, `{"by": %d}`, b)}
	}
	return events
}

// appendInline appends and applies in one transaction.
func appendInline(ctx context.Context, pool *pgxpool.Pool, p *projector.Projector, campaign string, by ...int) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		appended, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any, moveEvents(by...)...)
		if err != nil {
			return err
		}
		return p.ApplyInline(ctx, tx, appended...)
	})
}

func mustAppendInline(t *testing.T, pool *pgxpool.Pool, p *projector.Projector, campaign string, by ...int) {
	t.Helper()
	if err := appendInline(t.Context(), pool, p, campaign, by...); err != nil {
		t.Fatal(err)
	}
}

// squeamish fails on moves of -1 while refuse is true.
func squeamish(refuse *bool) projection.Projection {
	return projection.Handlers{
		Name: "picky", Version: 1, Tables: `CREATE TABLE picky (campaign_id text,
		seq bigint, by int, PRIMARY KEY (campaign_id, seq))`,
		On: []projection.Handler{
			projection.Handle("moved", func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
				switch {
				case m.By == -1 && *refuse:
					return errors.New("negative")
				case m.By < 0 && *refuse:
					g.Queue(`SELECT 1/0`)
				}
				g.Queue(`INSERT INTO picky VALUES ($1, $2, $3)`, e.CampaignID, e.Seq, m.By)
				return nil
			}),
		},
	}
}

func expectCounts(t *testing.T, pool *pgxpool.Pool, want map[string]int) {
	t.Helper()
	for sql, n := range want {
		if got := query[int](t, pool, sql); got != n {
			t.Errorf("%s: %d, want %d", sql, got, n)
		}
	}
}

func TestApplyInline(t *testing.T) {
	t.Parallel()
	t.Run("shows_the_effects_to_the_transaction_itself_and_to_all_once_it_commits", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p := inlineProjector(t, pool, projector.Config{
			Projections: []projection.Projection{counters(), ledger()},
			Schema:      "models",
		})
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		settings := func() (s string) {
			t.Helper()
			if err := tx.QueryRow(t.Context(), `SELECT concat_ws(' ', current_setting('search_path'),
				current_setting('enable_seqscan'), current_setting('jit'),
				current_setting('enable_memoize'), current_setting('statement_timeout'),
					current_setting('idle_in_transaction_session_timeout'),
					current_setting('synchronous_commit'))`).Scan(&s); err != nil {
				t.Fatal(err)
			}
			return s
		}
		if _, err := tx.Exec(t.Context(), `SET LOCAL search_path = 'elsewhere'; SET LOCAL jit = on;
			SET LOCAL statement_timeout = '7s'`); err != nil {
			t.Fatal(err)
		}
		before := settings()
		appended, err := journal.Journal{}.Append(t.Context(), tx, "c", journal.Any, moveEvents(1, 2, 3)...)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.ApplyInline(t.Context(), tx, appended...); err != nil {
			t.Fatal(err)
		}
		if after := settings(); after != before {
			t.Errorf("the settings were %q, after the call they are %q", before, after)
		}
		var sum int
		if err := tx.QueryRow(t.Context(), `SELECT (doc->>'sum')::int
			FROM models.counters`).Scan(&sum); err != nil || sum != 6 {
			t.Errorf("the transaction reads a sum of %d, %v, want 6", sum, err)
		}
		if n := query[int](t, pool, `SELECT count(*) FROM models.ledger`); n != 0 {
			t.Errorf("others see %d rows before it commits", n)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustAppendInline(t, pool, p, "c", 4)
		expectCounts(t, pool, map[string]int{
			`SELECT count(*) FROM models.ledger`: 4, `SELECT (doc->>'sum')::int
				FROM models.counters`: 10, `SELECT count(*) FROM tidemark.outbox`: 0,
			`SELECT checkpoint FROM
				tidemark.leases`: 4, `SELECT count(*) FROM tidemark.leases
				WHERE expires_at > '-infinity'`: 0, `SELECT count(*) FROM tidemark.failed`: 0,
		})
	})
	t.Run("fails_the_append_when_a_projection_fails", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		refuse := true
		p := inlineProjector(t, pool, projector.Config{Projections: []projection.Projection{ledger(), squeamish(&refuse)}})
		mustAppendInline(t, pool, p, "c", 1)
		err := appendInline(t.Context(), pool, p, "c", 2, -1)
		var apply *projection.ApplyError
		if !errors.As(err, &apply) || apply.Projection != "picky" || apply.Seq != 3 {
			t.Errorf("got %v", err)
		}
		expectCounts(t, pool, map[string]int{
			`SELECT count(*) FROM tidemark.journal`: 1, `SELECT count(*) FROM ledger`: 1,
			`SELECT count(*) FROM tidemark.failed`: 0,
		})
		mustAppendInline(t, pool, p, "c", 5)
		expectCounts(t, pool, map[string]int{`SELECT count(*) FROM picky`: 2, `SELECT checkpoint FROM tidemark.leases`: 2})
	})
	t.Run("leaves_no_effects_behind_when_its_error_is_ignored", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		refuse := true
		p := inlineProjector(t, pool, projector.Config{Projections: []projection.Projection{ledger(), squeamish(&refuse)}})
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			appended, err := journal.Journal{}.Append(t.Context(), tx, "c", journal.Any, moveEvents(-2)...)
			if err != nil {
				return err
			}
			if err := p.ApplyInline(t.Context(), tx, appended...); err == nil {
				t.Error("no error")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		refuse = false
		mustAppendInline(t, pool, p, "c", 2)
		expectCounts(t, pool, map[string]int{`SELECT count(*) FROM ledger`: 2, `SELECT count(*) FROM picky`: 2})
	})
	t.Run("applies_a_backlog_of_several_groups_first", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p := inlineProjector(t, pool, projector.Config{
			Projections: []projection.Projection{counters(), ledger()},
			GroupEvents: 3, Mode: projection.ModeOutboxApplyOnly,
		})
		appendMoves(t, pool, "a", 1, 2, 3, 4, 5, 6, 7)
		appendMoves(t, pool, "b", 1)
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			appended, err := journal.Journal{}.AppendAll(t.Context(), tx, journal.Batch{CampaignID: "b", Events: moveEvents(2, 3)},
				journal.Batch{CampaignID: "a", Events: moveEvents(8)},
				journal.Batch{CampaignID: "c", Events: moveEvents(1)})
			if err != nil {
				return err
			}
			return p.ApplyInline(t.Context(), tx, appended...)
		})
		if err != nil {
			t.Fatal(err)
		}
		expectCounts(t, pool, map[string]int{
			`SELECT count(*) FROM ledger`: 12, `SELECT (doc->>'sum')::int FROM counters
				WHERE campaign_id = 'a'`: 36, `SELECT count(*) FROM tidemark.outbox`: 0,
			`SELECT sum(checkpoint)
				FROM tidemark.leases`: 12, `SELECT count(*) FROM tidemark.leases
				WHERE expires_at > '-infinity'`: 0,
		})
	})
	t.Run("leaves_a_deferred_projection_where_it_is", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		refuse := true
		projections := []projection.Projection{ledger(), squeamish(&refuse)}
		p := inlineProjector(t, pool, projector.Config{Projections: projections, Mode: projection.ModeOutboxApplyOnly})
		appendMoves(t, pool, "c", 1, -1, 2)
		if _, err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustAppendInline(t, pool, p, "c", 3)
		expectCounts(t, pool, map[string]int{
			`SELECT count(*) FROM ledger`: 4, `SELECT count(*) FROM picky`: 1, `SELECT next_seq FROM tidemark.failed`: 2,
			`SELECT checkpoint FROM
				tidemark.leases`: 4,
		})
		refuse = false
		if _, err := pool.Exec(t.Context(), `UPDATE tidemark.failed SET next_attempt_at = now(),
			status = 'failed'`); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		expectCounts(t, pool, map[string]int{`SELECT count(*) FROM picky`: 4, `SELECT count(*) FROM tidemark.failed`: 0})
	})
	t.Run("defers_projections_that_join_or_are_unknown", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		inlineProjector(t, pool, projector.Config{Projections: []projection.Projection{counters(), ledger()}})
		if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name,
			table_names, state) VALUES ('joins', 'default', 1, 'tidemark_views', '{}', 'joining')`); err != nil {
			t.Fatal(err)
		}
		p := inlineProjector(t, pool, projector.Config{Projections: []projection.Projection{counters()}})
		mustAppendInline(t, pool, p, "c", 1)
		mustAppendInline(t, pool, p, "c", 2)
		if s := query[string](t, pool, `SELECT string_agg(projection || next_seq || status, ' ' ORDER BY projection)
			FROM tidemark.failed`); s != "joins1catching_up ledger1catching_up" {
			t.Errorf("failed: %s", s)
		}
	})
	t.Run("makes_the_work_under_way_of_a_worker_come_to_nothing", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		var p *projector.Projector
		inline := func() { mustAppendInline(t, pool, p, "c", 10) }
		for _, at := range []kind.Step{kind.StepClaimed, kind.StepRead, kind.StepApplied} {
			once := true
			worker, err := projector.New(projector.Config{
				Pool: pool, Projections: []projection.Projection{counters(), ledger()},
				OnStep: func(s kind.Step) {
					if s == at && once {
						once = false
						inline()
					}
				}, Concurrency: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			p = inlineProjector(t, pool, projector.Config{
				Projections: []projection.Projection{counters(), ledger()},
				Mode:        projection.ModeOutboxApplyOnly,
			})
			appendMoves(t, pool, "c", 1, 2)
			if _, err := worker.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if once {
				t.Errorf("the worker never came to %s", at)
			}
		}
		expectCounts(t, pool, map[string]int{
			`SELECT count(*) FROM ledger`: 9, `SELECT (doc->>'sum')::int
				FROM counters`: 39, `SELECT checkpoint FROM
				tidemark.leases`: 9, `SELECT count(*) FROM tidemark.outbox`: 0,
		})
	})
	t.Run("leaves_a_paused_campaign_and_a_paused_group_to_the_queue", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p := inlineProjector(t, pool, projector.Config{Projections: []projection.Projection{ledger()}})
		if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation,
			expires_at, checkpoint) VALUES ('default', 'c', 'paused', 3, 'infinity', 0)`); err != nil {
			t.Fatal(err)
		}
		mustAppendInline(t, pool, p, "c", 1)
		if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
			VALUES ('group', 'default', '', 'r', 'a')`); err != nil {
			t.Fatal(err)
		}
		mustAppendInline(t, pool, p, "d", 1)
		expectCounts(t, pool, map[string]int{
			`SELECT count(*) FROM ledger`: 0, `SELECT count(*) FROM tidemark.outbox`: 2,
			`SELECT generation FROM
			tidemark.leases`: 3,
		})
		if _, err := pool.Exec(t.Context(), `DELETE FROM tidemark.pauses; UPDATE tidemark.leases
			SET owner = '', expires_at = '-infinity'`, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		expectCounts(t, pool, map[string]int{`SELECT count(*) FROM ledger`: 2, `SELECT count(*) FROM tidemark.outbox`: 0})
	})
	t.Run("refuses_a_transaction_that_would_not_see_a_new_projection", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p := inlineProjector(t, pool, projector.Config{Projections: []projection.Projection{ledger()}})
		err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
			appended, err := journal.Journal{}.Append(t.Context(), tx, "c", journal.Any, moveEvents(1)...)
			if err != nil {
				return err
			}
			return p.ApplyInline(t.Context(), tx, appended...)
		})
		if !errors.Is(err, apply.ErrIsolation) || !strings.Contains(err.Error(), "REPEATABLE READ") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("refuses_to_run_before_registration", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		if err := appendInline(t.Context(), pool, newProjector(t, pool, ledger()), "c", 1); !errors.Is(err,
			apply.ErrNotRegistered) {
			t.Errorf("got %v", err)
		}
	})
}
