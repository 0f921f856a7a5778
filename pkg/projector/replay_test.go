package projector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func replayFrom(ctx context.Context, pool *pgxpool.Pool, r failed.ReplayRequest) (n int64, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		n, err = failed.Replay(ctx, tx, r, failed.Act{By: "ada"})
		return err
	})
	return n, err
}

// sameRows compares the rows of two sets of projections.
func sameRows(t *testing.T, pool *pgxpool.Pool, one, other string) {
	t.Helper()
	for i, table := range kindsTables(one) {
		rows := func(table string) string {
			return query[string](t, pool, fmt.Sprintf(`SELECT coalesce(string_agg(r::text, ' ' ORDER BY r::text), '')
				FROM %s r`, table))
		}
		if a, b := rows(table), rows(kindsTables(other)[i]); a != b {
			t.Errorf("%s and %s differ:\n%s\n%s", table, kindsTables(other)[i], a, b)
		}
	}
}

// TestReplayEndsAsIfLiveAllTheTime replays one set of projections at random times while events are
// appended. Another set with the same code is never replayed.
func TestReplayEndsAsIfLiveAllTheTime(t *testing.T) {
	t.Parallel()
	type step struct {
		campaign   string
		by         []int // to append
		projection string
		replay     bool
	}
	steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
		return step{
			campaign: fmt.Sprint("c", rapid.IntRange(0, 5).Draw(rt, "campaign")),
			by:       rapid.SliceOfN(rapid.IntRange(0, 7), 1, 6).Draw(rt, "by"),
			projection: rapid.SampledFrom([]string{"document_again", "handlers_again", "file_again", "file_again all"}).Draw(rt,
				"projection"),
			replay: rapid.Bool().Draw(rt, "replay"),
		}
	}), 60, 120)
	all := int64(0)
	for seed := range 4 {
		pool := pgtest.New(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var workers errgroup.Group
		for range 2 {
			p, err := projector.New(projector.Config{
				Pool: pool, Projections: append(kinds(t, "live"), kinds(t, "again")...), GroupEvents: 7, Concurrency: 1,
				PollInterval: 100 * time.Millisecond, NoListen: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Register(ctx); err != nil {
				t.Fatal(err)
			}
			workers.Go(func() error { return p.Run(ctx) })
		}
		replays := int64(0)
		for _, s := range steps.Example(seed) {
			switch {
			case !s.replay:
				appendMoves(t, pool, s.campaign, s.by...)
				continue
			case strings.HasSuffix(s.projection, " all"):
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					n, _, err := failed.ReplayAll(ctx, tx, failed.ReplayRequest{
						Group:      "default",
						Projection: strings.TrimSuffix(s.projection, " all"),
					}, "", 0, failed.Act{By: "ada"})
					replays += n
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			default:
				n, err := replayFrom(ctx, pool, failed.ReplayRequest{
					Group: "default", Projection: s.projection,
					Campaigns: []string{s.campaign},
				})
				if err != nil && !errors.Is(err, failed.ErrUnknown) {
					t.Fatal(err)
				}
				replays += n
			}
		}
		within(t, "all is applied", func() bool {
			return query[bool](t, pool, `SELECT NOT EXISTS (SELECT FROM tidemark.outbox)
				AND NOT EXISTS (SELECT FROM tidemark.failed)`)
		})
		stop()
		if err := workers.Wait(); err != nil {
			t.Fatal(err)
		}
		sameRows(t, pool, "live", "again")
		if n := query[int64](t, pool, `SELECT count(*) FROM tidemark.failure_log WHERE act = 'replayed'
			AND actor = 'ada'`); n != replays {
			t.Errorf("%d replays left %d rows in the log", replays, n)
		}
		if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failure_log WHERE act <> 'replayed'`); n > 0 {
			t.Errorf("replays came out as %d other acts", n)
		}
		all += replays
	}
	if all < 50 {
		t.Errorf("%d replays show nothing", all)
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, projections ...projection.Projection) (*pgxpool.Pool, *projector.Projector) {
		t.Helper()
		pool := pgtest.New(t)
		p := newProjector(t, pool, projections...)
		appendMoves(t, pool, "a", 1, 2, 3)
		appendMoves(t, pool, "b", 1, 2, 3)
		drained(t, p, 6)
		return pool, p
	}
	request := func(projection string, from int64, campaigns ...string) failed.ReplayRequest {
		return failed.ReplayRequest{Group: "default", Projection: projection, Campaigns: campaigns, From: from}
	}
	expect := func(t *testing.T, pool *pgxpool.Pool, r failed.ReplayRequest, want int64) {
		t.Helper()
		if n, err := failed.CountReplay(t.Context(), pool, r); err != nil || n != want {
			t.Errorf("counted %d, %v, want %d", n, err, want)
		}
		if n, err := replayFrom(t.Context(), pool, r); err != nil || n != want {
			t.Errorf("replayed %d, %v, want %d", n, err, want)
		}
	}
	t.Run("from_an_event_on_keeps_the_rows", func(t *testing.T) {
		t.Parallel()
		pool, p := begin(t, ordered("log"), counters())
		expect(t, pool, request("counters", 3, "a", "b"), 2)
		expect(t, pool, request("counters", 4, "a", "b"), 0) // no projection has reached event 4
		drained(t, p, 2)
		if s := query[string](t, pool, `SELECT string_agg(doc->>'sum', ' ') FROM counters`); s != "9 9" {
			t.Errorf("counters: %s", s)
		}
		if n := query[int](t, pool, `SELECT count(*) FROM log WHERE number = seq`); n != 6 {
			t.Errorf("log has %d events", n)
		}
	})
	t.Run("of_all_projections_of_a_campaign_from_scratch", func(t *testing.T) {
		t.Parallel()
		pool, p := begin(t, append(kinds(t, "one"), kinds(t, "two")...)...)
		for _, table := range kindsTables("one")[:2] {
			if _, err := pool.Exec(t.Context(), fmt.Sprintf(`UPDATE %s SET campaign_id = campaign_id
				WHERE campaign_id = 'a'`, table)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := pool.Exec(t.Context(), `UPDATE file_one SET sum = 0; UPDATE document_one SET doc = '{}'
			WHERE campaign_id = 'b'; DELETE FROM a_child_one WHERE campaign_id = 'a'`); err != nil {
			t.Fatal(err)
		}
		expect(t, pool, request("", 0, "b", "a", "b"), 12)
		if left, err := failed.Report(t.Context(), pool); err != nil || len(left) != 6 || left[0].Campaigns != 2 ||
			left[0].Projection != "document_one" || left[0].Status != failed.CatchingUp {
			t.Errorf("left: %+v, %v", left, err)
		}
		drained(t, p, 36)
		sameRows(t, pool, "one", "two")
		if left, err := failed.Report(t.Context(), pool); err != nil || len(left) > 0 {
			t.Errorf("left: %+v, %v", left, err)
		}
	})
	t.Run("begins_a_pair_that_is_behind_anew_and_skips_nothing", func(t *testing.T) {
		t.Parallel()
		pool, p := begin(t, ordered("log"), counters())
		if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group,
			next_seq, status, attempt_count, next_attempt_at, reset, error_message,
			first_failed_at, last_failed_at) SELECT c, 'log', 'default', s, 'dead', 8, 'infinity', c = 'b', 'bad', now(), now()
				FROM (VALUES ('a', 2), ('b', 1)) AS v (c, s);
			DELETE FROM log WHERE campaign_id = 'a' AND seq > 1`); err != nil {
			t.Fatal(err)
		}
		expect(t, pool, request("log", 3, "a", "b"), 2)
		const want = "a 2 catching_up 0 f, b 1 catching_up 0 t"
		if s := query[string](t, pool, `SELECT string_agg(concat_ws(' ', campaign_id, next_seq, status, attempt_count,
			error_message, last_failed_at, reset), ', ' ORDER BY campaign_id) FROM tidemark.failed`); s != want {
			t.Errorf("got %q, want %q", s, want)
		}
		drained(t, p, 5)
		if n := query[int](t, pool, `SELECT count(*) FROM log WHERE number = seq`); n != 6 {
			t.Errorf("log has %d events in order", n)
		}
	})
	t.Run("drops_work_under_way_on_what_was_true_before", func(t *testing.T) {
		t.Parallel()
		pool, _ := begin(t, ordered("log"))
		requested := false
		p, err := projector.New(projector.Config{
			Pool: pool, Concurrency: 1,
			Projections: []projection.Projection{ordered("log")}, OnStep: func(s kind.Step) {
				if s == kind.StepApplied && !requested {
					requested = true
					expect(t, pool, request("log", 0, "a"), 1)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, pool, request("log", 2, "a"), 1) // without the other replay, it would be applied twice
		drained(t, p, 3)
		if n := query[int](t, pool, `SELECT count(*) FROM log WHERE number = seq`); n != 6 {
			t.Errorf("log has %d events in order", n)
		}
	})
	t.Run("resets_as_the_projection_says", func(t *testing.T) {
		t.Parallel()
		pool, p := begin(t, totals{})
		expect(t, pool, request("totals", 0, "a"), 1)
		drained(t, p, 3)
		if s := query[string](t, pool, `SELECT string_agg(concat_ws(' ', key, sum), ', ' ORDER BY key)
			FROM totals`); s != "of a 6, of b 6" {
			t.Errorf("totals: %s", s)
		}
	})
	t.Run("tries_again_to_reset_what_could_not_be", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p, err := projector.New(projector.Config{
			Pool: pool, Projections: []projection.Projection{ordered("log")},
			OnFailure: projection.Policy{Base: time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		appendMoves(t, pool, "a", 1, 2, 3)
		drained(t, p, 3)
		if _, err := pool.Exec(t.Context(), `CREATE TABLE others (campaign_id text, number bigint,
			FOREIGN KEY (campaign_id, number) REFERENCES log); INSERT INTO others VALUES ('a', 2)`); err != nil {
			t.Fatal(err)
		}
		expect(t, pool, request("log", 0, "a"), 1)
		if _, err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := query[string](t, pool, `SELECT concat_ws(' ', next_seq, status, reset, error_code)
			FROM tidemark.failed`); s != "1 dead t 23503" {
			t.Errorf("failed: %s", s)
		}
		if _, err := pool.Exec(t.Context(), `DROP TABLE others; UPDATE tidemark.failed
			SET status = 'failed', next_attempt_at = now()`); err != nil {
			t.Fatal(err)
		}
		drained(t, p, 3)
		if n := query[int](t, pool, `SELECT count(*) FROM log WHERE number = seq`); n != 3 {
			t.Errorf("log has %d events in order", n)
		}
	})
	t.Run("refuses_what_it_could_not_do", func(t *testing.T) {
		t.Parallel()
		mixed := &projection.Handlers{Name: "mixed", Version: 1, Tables: `CREATE TABLE mixed (campaign_id
			text); CREATE TABLE "Sums" (campaign_id bigint)`}
		nothing := &projection.Handlers{Name: "nothing", Version: 1}
		pool, _ := begin(t, mixed, nothing, totals{})
		for name, test := range map[string]struct {
			request failed.ReplayRequest
			is      error
			says    string
		}{
			"a table without campaigns": {request("mixed", 0, "a"), failed.ErrNotResettable, `tidemark_views."Sums"`},
			"no tables": {
				request("nothing", 0, "a"), failed.ErrNotResettable,
				"nothing has created no tables",
			},
			"some of all":        {request("", 0, "a"), failed.ErrNotResettable, "projector.Resetter"},
			"no such projection": {request("x", 0, "a"), failed.ErrUnknown, `"x"`},
			"no such campaign":   {request("totals", 0, "a", "x"), failed.ErrUnknown, `"x"`},
			"a negative event":   {request("totals", -1, "a"), nil, "-1"},
			"no group":           {failed.ReplayRequest{Campaigns: []string{"a"}}, nil, "Group"},
			"too many":           {request("totals", 0, make([]string, 5001)...), nil, "5001"},
		} {
			_, err := replayFrom(t.Context(), pool, test.request)
			_, countErr := failed.CountReplay(t.Context(), pool, test.request)
			for _, err := range []error{err, countErr} {
				if err == nil || !strings.Contains(err.Error(), test.says) || test.is != nil && !errors.Is(err, test.is) {
					t.Errorf("%s: got %v, want an error with %s", name, err, test.says)
				}
			}
		}
		if _, err := replayFrom(t.Context(), pool, request("totals", 0)); err == nil {
			t.Error("no campaign was replayed")
		}
		if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failed`); n > 0 {
			t.Errorf("%d pairs are filed", n)
		}
		expect(t, pool, request("", 1, "a"), 3)
	})
}
