package projector_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// expectInStep expects that no campaign is behind, and that verify finds no difference with any
// code.
func expectInStep(t *testing.T, pool *pgxpool.Pool, when string, left int64, workers ...*projector.Projector) {
	t.Helper()
	expectText(t, pool, when+", pairs", "", `SELECT string_agg(projection || ' ' || next_seq || ' ' || status, ', '
		ORDER BY projection) FROM tidemark.failed`)
	for _, p := range workers {
		for _, name := range trailNames() {
			if report, found := verified(t, p, lookback.VerifyRequest{Projection: name, All: true}); len(found) > 0 ||
				report.Resolved != left || report.Skipped > 0 {
				t.Errorf("%s, verify of %s: %+v, %q", when, name, report, found)
			}
		}
	}
}

// TestAResolutionHolds resolves an event, with and without pruning the log. It applies the campaign
// again, with code that fails on the event and code that does not. Then it revokes the resolution.
func TestAResolutionHolds(t *testing.T) {
	t.Parallel()
	const without, with = "1 2 4 5", "1 2 13 4 5"
	type world struct {
		pool           *pgxpool.Pool
		broken, mended *projector.Projector
	}
	acts := map[string]func(t *testing.T, w world){
		"nothing": func(*testing.T, world) {},
		"a replay from scratch": func(t *testing.T, w world) {
			for _, name := range trailNames() {
				if _, err := replayFrom(t.Context(), w.pool, failed.ReplayRequest{
					Group: "default", Projection: name,
					Campaigns: []string{"a"},
				}); err != nil {
					t.Fatal(err)
				}
			}
			drain(t, w.mended)
		},
		"a replay of all from an event before it": func(t *testing.T, w world) {
			err := pgx.BeginFunc(t.Context(), w.pool, func(tx pgx.Tx) error {
				_, _, err := failed.ReplayAll(t.Context(), tx, failed.ReplayRequest{Group: "default", From: 2}, "", 0, ada)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			drain(t, w.mended)
		},
		"a replay by code that fails on it": func(t *testing.T, w world) {
			if _, err := replayFrom(t.Context(), w.pool, failed.ReplayRequest{
				Group:     "default",
				Campaigns: []string{"a", "b"},
			}); err != nil {
				t.Fatal(err)
			}
			drain(t, w.broken)
		},
		"a rebuild": func(t *testing.T, w world) {
			rebuildTrails(t, w.pool, w.mended, rebuild.Options{})
		},
		"a rebuild by code that fails on it": func(t *testing.T, w world) {
			rebuildTrails(t, w.pool, w.broken, rebuild.Options{})
		},
		"a rebuild and its rollback": func(t *testing.T, w world) {
			rebuildTrails(t, w.pool, w.mended, rebuild.Options{})
			expectTrails(t, w.pool, "after the rebuild", "", without)
			expectTrails(t, w.pool, "after the rebuild", "~previous", without)
			for _, name := range trailNames() {
				if err := rebuild.Rollback(t.Context(), w.pool, name, rebuild.RollbackOptions{}, ada); err != nil {
					t.Fatal(err)
				}
			}
		},
		"removing the projections": func(t *testing.T, w world) {
			for _, name := range trailNames() {
				if err := rebuild.Remove(t.Context(), w.pool, name, true, ada); err != nil {
					t.Fatal(err)
				}
			}
			drain(t, workerOf(t, w.pool, nil, trails(t, 1, false)...))
		},
		"removing the group": func(t *testing.T, w world) {
			for _, name := range trailNames() {
				if err := rebuild.Remove(t.Context(), w.pool, name, true, ada); err != nil {
					t.Fatal(err)
				}
			}
			if err := outbox.Unregister(t.Context(), w.pool, "default", "ada", "moved"); err != nil {
				t.Fatal(err)
			}
			drain(t, workerOf(t, w.pool, nil, trails(t, 1, false)...))
		},
	}
	for name, act := range acts {
		for _, pruned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,pruned=%v", name, pruned), func(t *testing.T) {
				t.Parallel()
				w := world{pool: pgtest.New(t)}
				w.broken, w.mended = workerOf(t, w.pool, nil, trails(t, 1, true)...),
					workerOf(t, w.pool, nil, trails(t, 1, false)...)
				appendMoves(t, w.pool, "a", 1, 2, 13, 4, 5)
				appendMoves(t, w.pool, "b", 1, 2)
				drain(t, w.broken)
				expectTrails(t, w.pool, "before it is resolved", "", "1 2")
				resolveTrails(t, w.pool, "")
				drain(t, w.broken)
				if pruned {
					exec(t, w.pool, `TRUNCATE tidemark.failure_log`)
				}
				act(t, w)
				expectTrails(t, w.pool, "resolved", "", without)
				expectInStep(t, w.pool, "resolved", 1, w.broken, w.mended)
				for _, projection := range trailNames() {
					state, err := w.mended.AsOf(t.Context(), projection, "a", 5)
					if err != nil || len(state.Tables[0].Rows) != 4 {
						t.Errorf("as of event 5 %s has %s, %v", projection, state.Tables, err)
					}
					changes, err := w.broken.Diff(t.Context(), projection, "a", 1, 4)
					if err != nil || len(changes) != 2 {
						t.Errorf("events 2 to 4 changed %+v in %s, %v", changes, projection, err)
					}
					why, err := w.broken.Why(t.Context(), lookback.WhyRequest{
						Projection: projection, CampaignID: "a",
						Key: []string{"4"},
					})
					if err != nil || len(why.Causes) == 0 {
						t.Errorf("why a row of %s is as it is: %+v, %v", projection, why, err)
					}
				}
				unresolveTrails(t, w.pool)
				drain(t, w.mended)
				expectTrails(t, w.pool, "taken back", "", with)
				expectInStep(t, w.pool, "taken back", 0, w.mended)
				if slices.Contains([]string{"a rebuild", "a rebuild and its rollback"}, name) {
					expectTrails(t, w.pool, "taken back", "~previous", with)
				}
				expectText(t, w.pool, "log", "3", `SELECT count(*)::text FROM tidemark.failure_log WHERE act = 'unresolved'
					AND actor = 'ada' AND reason = 'it counts' AND seq = 3`)
			})
		}
	}
}

// TestAResolutionIsOfAllSetsOfTables resolves an event at which one set of tables has failed. The
// other set has applied it, or has not reached it. Then it revokes the resolution.
func TestAResolutionIsOfAllSetsOfTables(t *testing.T) {
	t.Parallel()
	never := int64(0)
	begin := func(t *testing.T, pool *pgxpool.Pool, first, second bool) (one, two *projector.Projector) {
		t.Helper()
		one, two = workerOf(t, pool, nil, trails(t, 1, first)...),
			workerOf(t, pool, nil, append(trails(t, 1, first), trails(t, 2, second)...)...)
		appendMoves(t, pool, "a", 1, 2, 13, 4, 5)
		drain(t, one)
		return one, two
	}
	swapped := func(t *testing.T, pool *pgxpool.Pool, p *projector.Projector) {
		t.Helper()
		within(t, "the trails are rebuilt", func() bool {
			drain(t, p)
			return query[int](t, pool, `SELECT count(*) FROM tidemark.rebuilds`) == 0
		})
	}
	tests := map[string]func(t *testing.T, pool *pgxpool.Pool) (worker *projector.Projector){
		"live has failed, next is asked for": func(t *testing.T, pool *pgxpool.Pool) *projector.Projector {
			_, two := begin(t, pool, true, false)
			for _, name := range trailNames() {
				if _, err := rebuild.StartRebuild(t.Context(), pool, name, rebuild.Options{AllowFailed: &never},
					ada); err != nil {
					t.Fatal(err)
				}
			}
			resolveTrails(t, pool, "")
			return two
		},
		"live has failed, next is to copy": func(t *testing.T, pool *pgxpool.Pool) *projector.Projector {
			_, two := begin(t, pool, true, false)
			if err := two.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			expectText(t, pool, "state", "copying", `SELECT DISTINCT state FROM tidemark.projections WHERE name LIKE '%~next'`)
			resolveTrails(t, pool, "")
			return two
		},
		"live has failed, next has applied it": func(t *testing.T, pool *pgxpool.Pool) *projector.Projector {
			_, two := begin(t, pool, true, false)
			if err := two.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			blocked(t, pool, two)
			expectTrails(t, pool, "before", "~next", "2 4 26 8 10")
			resolveTrails(t, pool, "")
			unblock(t, pool)
			return two
		},
		"next has failed, live has applied it": func(t *testing.T, pool *pgxpool.Pool) *projector.Projector {
			_, two := begin(t, pool, false, true)
			within(t, "the trails have failed", func() bool {
				drain(t, two)
				return query[int](t, pool, `SELECT count(*) FROM tidemark.failed WHERE status = 'dead'
					AND projection LIKE '%~next'`) == 3
			})
			exec(t, pool, `UPDATE tidemark.rebuilds SET refused_at = NULL`)
			resolveTrails(t, pool, "~next")
			return two
		},
		"both have failed": func(t *testing.T, pool *pgxpool.Pool) *projector.Projector {
			_, two := begin(t, pool, true, true)
			within(t, "the trails have failed", func() bool {
				drain(t, two)
				return query[int](t, pool, `SELECT count(*) FROM tidemark.failed WHERE status = 'dead'`) == 6
			})
			exec(t, pool, `UPDATE tidemark.rebuilds SET refused_at = NULL`)
			resolveTrails(t, pool, "")
			return two
		},
		"live has failed, previous has applied it": func(t *testing.T, pool *pgxpool.Pool) *projector.Projector {
			_, two := begin(t, pool, false, true)
			for _, name := range trailNames() {
				allowed := int64(1)
				if _, err := rebuild.StartRebuild(t.Context(), pool, name,
					rebuild.Options{AllowFailed: &allowed, Version: ptr(2)}, ada); err != nil {
					t.Fatal(err)
				}
			}
			swapped(t, pool, two)
			expectTrails(t, pool, "before", "", "2 4")
			expectTrails(t, pool, "before", "~previous", "1 2 13 4 5")
			resolveTrails(t, pool, "")
			return two
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			p := prepare(t, pool)
			swapped(t, pool, p)
			drain(t, p)
			expectTrails(t, pool, "resolved", "", "2 4 8 10")
			expectTrails(t, pool, "resolved", "~previous", "1 2 4 5")
			expectInStep(t, pool, "resolved", 1, p)
			unresolveTrails(t, pool)
			mended := workerOf(t, pool, nil, append(trails(t, 1, false), trails(t, 2, false)...)...)
			drain(t, mended)
			expectTrails(t, pool, "taken back", "", "2 4 26 8 10")
			expectTrails(t, pool, "taken back", "~previous", "1 2 13 4 5")
			expectInStep(t, pool, "taken back", 0, mended)
		})
	}
}

func ptr[T any](v T) *T { return &v }

// blocked lets the trails catch up and prevents their swap with another campaign that is behind.
func blocked(t *testing.T, pool *pgxpool.Pool, p *projector.Projector) {
	t.Helper()
	appendMoves(t, pool, "z", 1)
	exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
		next_attempt_at)
		SELECT 'z', name || '~next', 'default', 1, 'catching_up', now() + interval '1 day'
			FROM unnest($1::text[]) AS n (name)`, trailNames())
	within(t, "the trails have caught up", func() bool {
		drain(t, p)
		return query[int](t, pool, `SELECT count(*) FROM tidemark.projections p WHERE name LIKE '%~next' AND state = 'active'
			AND NOT EXISTS (SELECT FROM tidemark.failed d WHERE d.projection = p.name AND d.campaign_id = 'a')`) == 3
	})
}

func unblock(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, `UPDATE tidemark.failed SET next_attempt_at = now() WHERE campaign_id = 'z'`)
}
