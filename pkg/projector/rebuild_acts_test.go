package projector_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// tripled returns the projection counters in a version. From version 2 on, a move by -1 fails it.
func tripled(version int) projection.Projection {
	return projection.Document[counter]{
		Name: "counters", Version: version, Types: []string{"moved"},
		OnFailure: projection.Policy{Action: projection.ActionDead},
		Fold: func(c *counter, e event.Event) error {
			m, err := event.Decode[moved](e)
			if version > 1 && m.By == -1 {
				return errors.New("backwards")
			}
			c.Count++
			c.Sum += version * m.By
			return err
		},
	}
}

func start(t *testing.T, pool *pgxpool.Pool, o rebuild.Options) {
	t.Helper()
	if _, err := rebuild.StartRebuild(t.Context(), pool, "counters", o, ada); err != nil {
		t.Fatal(err)
	}
}

func expectSums(t *testing.T, pool *pgxpool.Pool, want string) {
	t.Helper()
	expectText(t, pool, "sums", want, `SELECT coalesce(string_agg(campaign_id || (doc->>'sum'), ' '
		ORDER BY campaign_id), '') FROM tidemark_views.counters`)
}

// leftovers lists everything that an aborted rebuild could leave behind.
func leftovers(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return query[string](t, pool, `SELECT coalesce(string_agg(x, ' ' ORDER BY x), '') FROM (
		SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname LIKE 'tidemark\_%' AND nspname <> 'tidemark_views'
		UNION ALL SELECT 'row ' || name FROM tidemark.projections WHERE name LIKE '%~%'
		UNION ALL SELECT 'rebuild ' || projection FROM tidemark.rebuilds
		UNION ALL SELECT 'pair ' || projection FROM tidemark.failed WHERE projection LIKE '%~%'
		UNION ALL SELECT 'pause ' || name FROM tidemark.pauses
		UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE proname LIKE 'tidemark\_%\_v2\_%') l (x)`)
}

func TestARolledBackProjectionIsAsIfItHadNeverBeenRebuilt(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	both := func() *projector.Projector { return workerOf(t, pool, nil, tripled(1), tripled(2)) }
	one := workerOf(t, pool, nil, tripled(1))
	appendMoves(t, pool, "a", 1, 2)
	drain(t, one)
	if err := rebuild.Rollback(t.Context(), pool, "counters", rebuild.RollbackOptions{}, ada); !errors.Is(err,
		rebuild.ErrNoPrevious) {
		t.Errorf("rolled back to nothing: %v", err)
	}
	two := workerOf(t, pool, nil, tripled(2))
	drain(t, two)
	expectSums(t, pool, "a6")
	appendMoves(t, pool, "a", 4)
	appendMoves(t, pool, "b", 1)
	drain(t, two)
	if err := rebuild.Rollback(t.Context(), pool, "counters", rebuild.RollbackOptions{}, ada); !errors.Is(err,
		rebuild.ErrBehind) {
		t.Errorf("rolled back to tables that are behind: %v", err)
	}
	drain(t, one)
	if err := rebuild.Rollback(t.Context(), pool, "counters", rebuild.RollbackOptions{}, ada); err != nil {
		t.Fatal(err)
	}
	expectSums(t, pool, "a7 b1")
	appendMoves(t, pool, "b", 2)
	drain(t, two) // the rebuild does not start again
	drain(t, one)
	expectSums(t, pool, "a7 b3")
	// Roll forward again with a worker that has both versions.
	drain(t, both())
	if err := rebuild.Rollback(t.Context(), pool, "counters", rebuild.RollbackOptions{Keep: time.Nanosecond},
		ada); err != nil {
		t.Fatal(err)
	}
	expectSums(t, pool, "a14 b6")
	drain(t, both())
	if s := leftovers(t, pool); s != "" {
		t.Errorf("what was kept for long enough is still there: %s", s)
	}
}

func TestTheTablesAreNotExchangedWhileCampaignsHaveFailedInTheNewOnes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	one := workerOf(t, pool, nil, tripled(1))
	appendMoves(t, pool, "a", 1, -1)
	appendMoves(t, pool, "b", 2)
	drain(t, one)
	two := workerOf(t, pool, nil, tripled(2))
	drain(t, two)
	expectSums(t, pool, "a0 b2")
	all, err := rebuild.Rebuilds(t.Context(), pool, "")
	if err != nil || len(all) != 1 || all[0].Dead != 1 || all[0].Campaigns != 2 || all[0].Events != 3 ||
		all[0].LeftEvents != 1 || all[0].Refusal == "" || all[0].Version != 2 || all[0].FromVersion != 1 {
		t.Fatalf("rebuilds: %+v, %v", all, err)
	}
	allow := int64(1)
	start(t, pool, rebuild.Options{AllowFailed: &allow})
	drain(t, two)
	expectSums(t, pool, "a2 b4")
	expectText(t, pool, "pairs", "counters a 2 dead", `SELECT string_agg(concat_ws(' ', projection, campaign_id,
		next_seq, status), ', ') FROM tidemark.failed`)
}

func TestAPausedRebuildWaits(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	one := workerOf(t, pool, nil, tripled(1))
	appendMoves(t, pool, "a", 1)
	drain(t, one)
	two := workerOf(t, pool, nil, tripled(2))
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
		VALUES ('projection', 'default', 'counters~next', '', 'ada')`)
	drain(t, two)
	drain(t, two)
	expectSums(t, pool, "a1")
	expectText(t, pool, "rows of the new table", "0", `SELECT count(*)::text FROM tidemark_next_counters.counters`)
	exec(t, pool, `DELETE FROM tidemark.pauses`)
	drain(t, two)
	drain(t, two)
	expectSums(t, pool, "a2")
}

// TestTheExchangeWaitsForThePausedAndForThoseBehind tries the swap while one campaign is behind,
// and then while all have caught up and the rebuild is paused.
func TestTheExchangeWaitsForThePausedAndForThoseBehind(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendMoves(t, pool, "a", 1)
	appendMoves(t, pool, "b", 2)
	drain(t, workerOf(t, pool, nil, tripled(1)))
	two := workerOf(t, pool, nil, tripled(2))
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	none := 0
	start(t, pool, rebuild.Options{Verify: &none}) // a difference would delay the next attempt
	exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
		next_attempt_at) VALUES ('b', 'counters~next', 'default', 1, 'catching_up', now() + interval '1 day')`)
	drain(t, two)
	expectText(t, pool, "campaigns in the new table", "a", `SELECT string_agg(campaign_id, ' ')
		FROM tidemark_next_counters.counters`)
	expectSums(t, pool, "a1 b2")
	exec(t, pool, `INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
		VALUES ('projection', 'default', 'counters~next', '', 'ada')`)
	exec(t, pool, `DELETE FROM tidemark.failed`)
	drain(t, two)
	expectSums(t, pool, "a1 b2")
	exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status)
		VALUES ('b', 'counters~next', 'default', 1, 'catching_up')`)
	exec(t, pool, `DELETE FROM tidemark.pauses`)
	drain(t, two)
	drain(t, two) // the second drain claims what the first has seen to continue
	expectSums(t, pool, "a2 b4")
}

func TestANewerVersionTakesThePlaceOfARebuildUnderWay(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	one := workerOf(t, pool, nil, tripled(1))
	appendMoves(t, pool, "a", 1)
	drain(t, one)
	two, three := workerOf(t, pool, nil, tripled(2)), workerOf(t, pool, nil, tripled(3))
	for _, p := range []*projector.Projector{two, three} {
		if err := p.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expectText(t, pool, "registry", "counters 1 active, counters~next 3 copying", `SELECT string_agg(format('%s %s %s',
		name, version, state), ', ' ORDER BY name) FROM tidemark.projections`)
	appendMoves(t, pool, "a", 2)
	drain(t, two) // worker two has no part in the rebuild any more
	drain(t, one)
	expectSums(t, pool, "a3")
	drain(t, three)
	expectSums(t, pool, "a9")
	drain(t, workerOf(t, pool, nil, tripled(1))) // a worker with an older version still starts
	expectSums(t, pool, "a9")
}

func TestAProjectionIsRemovedWithItsRebuild(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	one := workerOf(t, pool, nil, tripled(1))
	appendMoves(t, pool, "a", 1)
	drain(t, one)
	drain(t, workerOf(t, pool, nil, tripled(2)))
	if err := workerOf(t, pool, nil, tripled(3)).Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := rebuild.Remove(t.Context(), pool, "counters", true, ada); err != nil {
		t.Fatal(err)
	}
	if s := leftovers(t, pool) + query[string](t, pool, `SELECT coalesce(string_agg(name, ' '), '')
		FROM tidemark.projections`); s != "" {
		t.Errorf("left: %s", s)
	}
}

func TestARebuildIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	drain(t, workerOf(t, pool, nil, tripled(1)))
	nothing, past, one, two := 0.0, -1*time.Second, 1, 2
	start(t, pool, rebuild.Options{Version: &two}) // no worker has it
	for want, o := range map[string]rebuild.Options{
		"MaxShare is 0: it must be above 0":    {MaxShare: &nothing},
		"Keep is -1s: it must not be negative": {Keep: &past},
		"Version is 0: versions start at 1":    {Version: new(int)},
		"version 2 is being built: abort that": {Version: &one},
	} {
		if _, err := rebuild.StartRebuild(t.Context(), pool, "counters", o, ada); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := rebuild.StartRebuild(t.Context(), pool, "nobody", rebuild.Options{}, ada); !errors.Is(err,
		rebuild.ErrUnknownProjection) {
		t.Errorf("of an unknown projection: %v", err)
	}
}

// TestTablesThatOthersStandOnAreNotDropped puts a view on the previous tables and another on the
// next tables.
func TestTablesThatOthersStandOnAreNotDropped(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	drain(t, newProjector(t, pool, tripled(1)))
	two := newProjector(t, pool, tripled(2))
	drain(t, two)
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string, err error, by string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "because these depend on them: "+by+": drop them first") {
			t.Errorf("%s: %v", what, err)
		}
	}
	exec(`CREATE VIEW compared AS SELECT n.campaign_id, n.doc, p.doc AS was FROM counters n
		JOIN tidemark_previous_counters.counters p USING (campaign_id)`)
	exec(`UPDATE tidemark.projections SET kept_until = now() - interval '1 s' WHERE name = 'counters~previous'`)
	drain(t, two)
	expectText(t, pool, "kept", "true", `SELECT (kept_until > now() + interval '30 min')::text FROM tidemark.projections
		WHERE name = 'counters~previous'`)
	start(t, pool, rebuild.Options{})
	drain(t, two)
	expectText(t, pool, "refusal", "true", `SELECT (refusal LIKE '%view compared%')::text FROM tidemark.rebuilds`)
	refused("removed", rebuild.Remove(t.Context(), pool, "counters", true, ada), "view compared")
	exec(`DROP VIEW compared`)
	exec(`CREATE VIEW peeked AS SELECT campaign_id FROM tidemark_next_counters.counters`)
	refused("aborted", abort(t.Context(), pool, "counters", ada), "view peeked")
	expectText(t, pool, "versions", "counters 2, counters~next 2, counters~previous 1", `SELECT string_agg(name || ' ' ||
		version, ', ' ORDER BY name) FROM tidemark.projections`)
	exec(`DROP VIEW peeked`)
	if err := abort(t.Context(), pool, "counters", ada); err != nil {
		t.Fatal(err)
	}
	exec(`UPDATE tidemark.projections SET kept_until = now() WHERE name = 'counters~previous'`)
	drain(t, two)
	if left := leftovers(t, pool); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// TestWhatWasAddedToTheTablesIsOnTheNewOnes adds an index and a constraint before a rebuild.
func TestWhatWasAddedToTheTablesIsOnTheNewOnes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendMoves(t, pool, "a", 1, 2)
	drain(t, newProjector(t, pool, tripled(1)))
	exec(t, pool, `CREATE INDEX "by Sum" ON counters ((doc->>'sum')); ALTER TABLE counters ADD CONSTRAINT counted CHECK
		(doc ? 'count')`)
	two := newProjector(t, pool, tripled(2))
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	const on = `SELECT coalesce(string_agg(x, ', ' ORDER BY x), '') FROM (
		SELECT indexname FROM pg_indexes WHERE schemaname = $1 AND indexname LIKE '%by%' UNION ALL SELECT conname
			FROM pg_constraint WHERE connamespace = to_regnamespace($1) AND conname IN ('counted', 'older')) a (x)`
	if got := query[string](t, pool, on, "tidemark_next_counters"); got != "by Sum, counted" {
		t.Errorf("while they are empty the new tables have %q", got)
	}
	drain(t, two)
	expectSums(t, pool, "a6")
	if got := query[string](t, pool, on, "tidemark_views"); got != "by Sum, counted" {
		t.Errorf("the new tables have %q", got)
	}
}

// TestARebuildOfAVersionThatNoWorkerHasIsRefused runs a worker that announces its versions.
func TestARebuildOfAVersionThatNoWorkerHasIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	drain(t, workerOf(t, pool, nil, tripled(1)))
	worker := workerOf(t, pool, func(c *projector.Config) { c.ManualRebuilds = true }, tripled(1), tripled(2))
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- worker.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}()
	within(t, "the worker says what it has", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark.workers WHERE knows = '{"counters": [1, 2]}'`) == 1
	})
	nine, two := 9, 2
	_, err := rebuild.StartRebuild(t.Context(), pool, "counters", rebuild.Options{Version: &nine}, ada)
	if !errors.Is(err, rebuild.ErrNoCode) || !strings.Contains(err.Error(), "version 9") ||
		!strings.Contains(err.Error(), "[1 2]") {
		t.Errorf("version 9, of which there is no code: %v", err)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.projections`); n != 1 {
		t.Errorf("%d sets of tables are registered, want the live one alone", n)
	}
	start(t, pool, rebuild.Options{Version: &two})
}
