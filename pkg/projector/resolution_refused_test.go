package projector_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// grand has a table whose campaign_id is no text, so it cannot be reset by campaign. A broken one
// fails on a move by 13.
func grand(version int, broken bool) projection.Projection {
	return projection.Handlers{
		Name: "grand", Version: version, OnFailure: projection.Policy{Action: projection.ActionDead},
		Tables: `CREATE TYPE campaigns AS ENUM ('a'); CREATE TABLE grand (one boolean PRIMARY KEY DEFAULT true, sum bigint NOT NULL DEFAULT 0,
			campaign_id campaigns UNIQUE); INSERT INTO grand DEFAULT VALUES`,
		On: []projection.Handler{
			projection.Handle("moved", func(_ context.Context, g *projection.Group, _ event.Event, m moved) error {
				if broken && m.By == 13 {
					return errors.New("unlucky")
				}
				g.Queue(`UPDATE grand SET sum = sum + $1`, m.By)
				return nil
			}),
		},
	}
}

func TestAResolutionThatNeedsAResetIsRefusedWithoutOne(t *testing.T) {
	t.Parallel()
	key := failed.Key{Projection: "grand", CampaignID: "a"}
	t.Run("taken back", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p := workerOf(t, pool, nil, grand(1, true))
		appendMoves(t, pool, "a", 1, 13, 5)
		drain(t, p)
		resolve := func(tx pgx.Tx) error {
			return failed.Resolve(t.Context(), tx, key, 2, failed.Act{By: "ada", Reason: "a test's"})
		}
		if err := pgx.BeginFunc(t.Context(), pool, resolve); err != nil {
			t.Fatal(err)
		}
		drain(t, p)
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return failed.Unresolve(t.Context(), tx, key, 2, failed.Act{By: "ada", Reason: "it counts"})
		})
		if !errors.Is(err, failed.ErrNotResettable) {
			t.Errorf("Unresolve = %v, want %v", err, failed.ErrNotResettable)
		}
		drain(t, p)
		expectText(t, pool, "sum", "6", `SELECT sum::text FROM grand`)
		expectText(t, pool, "resolutions", "grand a 2", `SELECT string_agg(concat_ws(' ', projection, campaign_id, seq),
			', ') FROM tidemark.resolutions`)
		expectPairs(t, pool, "")
		expectText(t, pool, "log", "0", `SELECT count(*)::text FROM tidemark.failure_log WHERE act = 'unresolved'`)
	})
	t.Run("resolved where another set has applied it", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		drain(t, workerOf(t, pool, nil, grand(1, true)))
		appendMoves(t, pool, "a", 1, 13, 5)
		drain(t, workerOf(t, pool, nil, grand(1, true)))
		never := int64(0)
		two := workerOf(t, pool, nil, grand(1, true), grand(2, false))
		if _, err := rebuild.StartRebuild(t.Context(), pool, "grand", rebuild.Options{AllowFailed: &never},
			ada); err != nil {
			t.Fatal(err)
		}
		exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
			next_attempt_at)
			VALUES ('z', 'grand~next', 'default', 1, 'catching_up',
				now() + interval '1 day')`) // prevents the swap
		within(t, "the next tables have applied it", func() bool {
			drain(t, two)
			return query[int](t, pool, `SELECT count(*) FROM tidemark.projections WHERE name = 'grand~next'
				AND state = 'active'`) == 1 &&
				query[int](t, pool, `SELECT count(*) FROM tidemark.failed WHERE projection = 'grand~next'
					AND campaign_id = 'a'`) == 0
		})
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return failed.Resolve(t.Context(), tx, key, 2, failed.Act{By: "ada", Reason: "a test's"})
		})
		if !errors.Is(err, failed.ErrNotResettable) {
			t.Errorf("Resolve = %v, want %v", err, failed.ErrNotResettable)
		}
		drain(t, two)
		expectText(t, pool, "resolutions", "0", `SELECT count(*)::text FROM tidemark.resolutions`)
		expectText(t, pool, "pair", "grand 2 dead", `SELECT concat_ws(' ', projection, next_seq, status)
			FROM tidemark.failed WHERE campaign_id = 'a'`)
		expectText(t, pool, "next", "19", `SELECT sum::text FROM tidemark_next_grand.grand`)
	})
}

// TestASkipIsAskedForAgainOnceTheLogIsForgotten lets a policy skip an event, prunes the log, and
// then applies the campaign again.
func TestASkipIsAskedForAgainOnceTheLogIsForgotten(t *testing.T) {
	t.Parallel()
	skipping := func(broken bool) projection.Projection {
		return projection.Handlers{
			Name: "steps", Version: 1, OnFailure: projection.Policy{Action: projection.ActionSkip},
			Tables: `CREATE TABLE steps (campaign_id text, seq bigint, by int, PRIMARY KEY (campaign_id, seq))`,
			On: []projection.Handler{
				projection.Handle("moved", func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
					if broken && m.By == 13 {
						return errors.New("unlucky")
					}
					g.Queue(`INSERT INTO steps VALUES ($1, $2, $3)`, e.CampaignID, e.Seq, m.By)
					return nil
				}),
			},
		}
	}
	const rows = `SELECT coalesce(string_agg(by::text, ' ' ORDER BY seq), '') FROM steps`
	for name, broken := range map[string]bool{"by code that fails on it": true, "by code that does not": false} {
		for _, act := range []string{"a replay", "a rebuild"} {
			t.Run(act+" "+name, func(t *testing.T) {
				t.Parallel()
				pool := pgtest.New(t)
				appendMoves(t, pool, "a", 1, 13, 5)
				drain(t, workerOf(t, pool, nil, skipping(true)))
				expectText(t, pool, "live", "1 5", rows)
				exec(t, pool, `TRUNCATE tidemark.failure_log`)
				p := workerOf(t, pool, nil, skipping(broken))
				want, differing := "1 5", int64(0)
				if !broken {
					want, differing = "1 13 5", 1
				}
				request := lookback.VerifyRequest{Projection: "steps", All: true}
				if report, found := verified(t, p, request); report.Differing != differing || report.Failed > 0 {
					t.Errorf("verify: %+v, %q", report, found)
				}
				switch act {
				case "a rebuild":
					if _, err := rebuild.StartRebuild(t.Context(), pool, "steps", rebuild.Options{}, ada); err != nil {
						t.Fatal(err)
					}
					within(t, "it is rebuilt", func() bool {
						drain(t, p)
						return query[int](t, pool, `SELECT count(*) FROM tidemark.rebuilds`) == 0
					})
				default:
					if _, err := replayFrom(t.Context(), pool, failed.ReplayRequest{
						Group: "default", Projection: "steps",
						Campaigns: []string{"a"},
					}); err != nil {
						t.Fatal(err)
					}
				}
				drain(t, p)
				expectText(t, pool, "afterwards", want, rows)
				expectPairs(t, pool, "")
				if report, found := verified(t, p, request); report.Differing > 0 || report.Failed > 0 {
					t.Errorf("verify afterwards: %+v, %q", report, found)
				}
			})
		}
	}
}
