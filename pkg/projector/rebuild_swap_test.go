package projector_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	registration "github.com/tidemark-go/tidemark/internal/projector/registry"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// ready returns a worker that has begun a rebuild of the counters without verification. It has a
// pool of its own, because a swap needs connections that tests hold.
func ready(t *testing.T, pool *pgxpool.Pool) *projector.Projector {
	t.Helper()
	own, err := pgxpool.NewWithConfig(t.Context(), pool.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	drain(t, workerOf(t, own, nil, tripled(1)))
	two := workerOf(t, own, nil, tripled(2))
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	none := 0
	start(t, pool, rebuild.Options{Verify: &none})
	return two
}

// drainBeside drains in the background. wait returns when the drain has ended.
func drainBeside(t *testing.T, p *projector.Projector) (wait func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := p.Drain(t.Context())
		done <- err
	}()
	return func() {
		t.Helper()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// heldBack lets a worker reach the swap and wait there for a group. It returns the group's
// transaction.
func heldBack(t *testing.T, pool *pgxpool.Pool, p *projector.Projector) (group pgx.Tx, wait func()) {
	t.Helper()
	exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
		next_attempt_at) VALUES ('b', 'counters~next', 'default', 1, 'catching_up', now() + interval '1 day')`)
	drain(t, p)
	expectText(t, pool, "state", "active", `SELECT state FROM tidemark.projections WHERE name = 'counters~next'`)
	exec(t, pool, `DELETE FROM tidemark.failed`)
	group, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = group.Rollback(context.WithoutCancel(t.Context())) })
	if _, err := group.Exec(t.Context(), `SELECT pg_advisory_xact_lock_shared(tidemark.lock_key(32003,
		hashtextextended('default', 0)))`); err != nil {
		t.Fatal(err)
	}
	wait = drainBeside(t, p)
	within(t, "the exchange waits for the group", func() bool {
		return query[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory'
			AND mode = 'ExclusiveLock' AND NOT granted AND database = (SELECT oid FROM pg_database
			WHERE datname = current_database()))`)
	})
	return group, wait
}

func version(t *testing.T, pool *pgxpool.Pool, name string) int {
	t.Helper()
	return query[int](t, pool, `SELECT coalesce(max(version), 0) FROM tidemark.projections WHERE name = $1`, name)
}

// TestReadersDoNotQueueBehindAnExchange keeps one reader on the table, so the swap cannot lock it.
// Readers that come after the swap must not wait for the first one.
func TestReadersDoNotQueueBehindAnExchange(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendMoves(t, pool, "a", 1)
	two := ready(t, pool)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reader, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(ctx) }()
	if _, err := reader.Exec(ctx, `SELECT FROM counters`); err != nil {
		t.Fatal(err)
	}
	wait := drainBeside(t, two)
	within(t, "the exchange waits for the table", func() bool {
		return query[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_locks
			WHERE relation = 'tidemark_views.counters'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted)`)
	})
	if _, err := pool.Exec(ctx, `SELECT FROM counters`); err != nil {
		t.Errorf("a reader that came after the exchange: %v", err)
	}
	if err := reader.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	wait()
	within(t, "the tables are exchanged", func() bool {
		drain(t, two)
		return version(t, pool, "counters") == 2
	})
	expectSums(t, pool, "a2")
}

// TestTheExchangeLooksOnceMoreUnderItsLock lets a campaign fall behind after the worker has found
// none.
func TestTheExchangeLooksOnceMoreUnderItsLock(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendMoves(t, pool, "a", 1)
	two := ready(t, pool)
	group, waited := heldBack(t, pool, two)
	if _, err := group.Exec(t.Context(), `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group,
		next_seq, status, next_attempt_at) VALUES ('a', 'counters~next', 'default', 1, 'catching_up',
		now() + interval '1 day')`); err != nil {
		t.Fatal(err)
	}
	if err := group.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	waited()
	if v := version(t, pool, "counters"); v != 1 {
		t.Errorf("version %d is read while a campaign of it is behind", v)
	}
}

// TestWhatIsAddedWhileTheTablesAreBuiltIsAddedToTheNewOnesToo adds an index during a rebuild. The
// swap is refused until the next tables have it too.
func TestWhatIsAddedWhileTheTablesAreBuiltIsAddedToTheNewOnesToo(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendMoves(t, pool, "a", 1)
	two := ready(t, pool)
	exec(t, pool, `CREATE INDEX late ON counters ((doc->>'sum'))`)
	drain(t, two)
	expectText(t, pool, "refusal", "counters.late was added to the live tables since the rebuild began: add it to "+
		"the new ones in schema tidemark_next_counters too, or drop it", `SELECT refusal FROM tidemark.rebuilds`)
	if v := version(t, pool, "counters"); v != 1 {
		t.Errorf("version %d is read, without the index", v)
	}
	exec(t, pool, `CREATE INDEX late ON tidemark_next_counters.counters ((doc->>'sum'))`)
	start(t, pool, rebuild.Options{}) // retries at once
	drain(t, two)
	expectText(t, pool, "the new table has", "counters_pkey late", `SELECT string_agg(indexname, ' ' ORDER BY indexname)
		FROM pg_indexes WHERE schemaname = 'tidemark_views' AND tablename = 'counters'`)
	expectText(t, pool, "its statistics are there", "true", `SELECT (count(*) > 0)::text FROM pg_stats
		WHERE schemaname = 'tidemark_views' AND tablename = 'counters'`)
}

// TestThatWhichWaitsForItsNextAttemptHasFailed covers a campaign that waits for its retry: neither
// dead nor rebuilding.
func TestThatWhichWaitsForItsNextAttemptHasFailed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendMoves(t, pool, "a", 1)
	two := ready(t, pool)
	exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
		next_attempt_at) VALUES ('b', 'counters~next', 'default', 1, 'failed', now() + interval '1 day')`)
	drain(t, two)
	expectText(t, pool, "refusal", "true",
		`SELECT (refusal LIKE 'at least 1 of its campaigns are failed or dead, allowed are 0%'
			AND refused_at > started_at)::text FROM tidemark.rebuilds`)
	if v := version(t, pool, "counters"); v != 1 {
		t.Errorf("version %d is read", v)
	}
}

// TestTablesThatWereReplacedAreKeptForAsLongAsIsSaid checks kept_until of the previous tables.
func TestTablesThatWereReplacedAreKeptForAsLongAsIsSaid(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendMoves(t, pool, "a", 1)
	drain(t, workerOf(t, pool, nil, tripled(1)))
	two := workerOf(t, pool, nil, tripled(2))
	kept := func(least, most string) {
		t.Helper()
		drain(t, two)
		drain(t, two) // the second drain checks the kept tables
		expectText(t, pool, "kept for that long", "true", `SELECT coalesce(bool_and(kept_until BETWEEN now() + $1::interval
			AND now() + $2::interval), false)::text FROM tidemark.projections WHERE name = 'counters~previous'`, least, most)
	}
	kept("23 h", "24 h")
	week := 7 * 24 * time.Hour
	start(t, pool, rebuild.Options{Keep: &week})
	kept("6 d 23 h", "7 d")
	start(t, pool, rebuild.Options{})
	start(t, pool, rebuild.Options{Keep: &week}) // requested later
	kept("6 d 23 h", "7 d")
	if err := rebuild.Rollback(t.Context(), pool, "counters", rebuild.RollbackOptions{Keep: 2 * week},
		ada); err != nil {
		t.Fatal(err)
	}
	kept("13 d 23 h", "14 d")
}

// TestTablesComeBackThatAreBehindAsFarAsIsAllowed rolls back while the previous tables are behind
// in two campaigns.
func TestTablesComeBackThatAreBehindAsFarAsIsAllowed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendMoves(t, pool, "a", 1)
	two := ready(t, pool)
	drain(t, two)
	for _, campaign := range []string{"a", "b"} {
		appendMoves(t, pool, campaign, 1)
	}
	drain(t, two)
	expectSums(t, pool, "a4 b2")
	err := rebuild.Rollback(t.Context(), pool, "counters", rebuild.RollbackOptions{AllowBehind: 1}, ada)
	if !errors.Is(err, rebuild.ErrBehind) || !strings.Contains(err.Error(), "in 2 campaigns, allowed are 1") {
		t.Errorf("two are behind, one may be: %v", err)
	}
	if err := rebuild.Rollback(t.Context(), pool, "counters", rebuild.RollbackOptions{AllowBehind: 2},
		ada); err != nil {
		t.Fatal(err)
	}
	expectSums(t, pool, "a1")
	drain(t, workerOf(t, pool, nil, tripled(1)))
	expectSums(t, pool, "a2 b1")
}

func TestWhatIsBeingRebuiltIsNotRolledBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	two := ready(t, pool)
	drain(t, two)
	start(t, pool, rebuild.Options{})
	if err := rebuild.Rollback(t.Context(), pool, "counters", rebuild.RollbackOptions{}, ada); !errors.Is(err,
		rebuild.ErrRebuilding) {
		t.Errorf("rolled back while it is rebuilt: %v", err)
	}
	exec(t, pool, `INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
		VALUES ('projection', 'default', 'counters', '', 'ada')`)
	drain(t, two)
	expectText(t, pool, "paused", "counters~previous", `SELECT string_agg(name, ' ')
		FROM tidemark.pauses`) // the pause belongs to the tables
	if err := rebuild.Rollback(t.Context(), pool, "counters", rebuild.RollbackOptions{}, ada); !errors.Is(err,
		rebuild.ErrBehind) || !strings.Contains(err.Error(), "paused") {
		t.Errorf("rolled back to tables that are paused: %v", err)
	}
}

// TestFunctionsLeaveWithTheTablesTheyWriteTo uses an SQL file. Its functions are dropped later,
// together with the tables.
func TestFunctionsLeaveWithTheTablesTheyWriteTo(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for version := range 2 {
		appendMoves(t, pool, "a", 1)
		drain(t, workerOf(t, pool, nil, kindsOf(t, "k", version+1)...))
	}
	expectText(t, pool, "functions", "tidemark_previous_file_k v1, tidemark_views v2", `SELECT string_agg(DISTINCT
		concat_ws(' ', pronamespace::regnamespace, substring(proname::text FROM 'v[0-9]+')), ', ')
		FROM pg_proc WHERE starts_with(proname::text, 'tidemark_file_k')`)
}

// TestVerifyNoticesThatTheTablesHaveBeenExchanged swaps the tables between two batches of
// campaigns.
func TestVerifyNoticesThatTheTablesHaveBeenExchanged(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `SELECT tidemark.append('c' || n, '[{"type": "moved", "payload": {"by": 1}}]')
		FROM generate_series(1, 100) n`)
	one := workerOf(t, pool, nil, tripled(1))
	drain(t, one)
	two := ready(t, pool)
	_, err := one.Verify(t.Context(), lookback.VerifyRequest{
		Projection: "counters", All: true, Concurrency: 1,
		OnProgress: func(lookback.VerifyReport) { drain(t, two) },
	})
	if !errors.Is(err, registration.ErrRegistered) || !strings.Contains(err.Error(), "start again") {
		t.Errorf("verified across an exchange: %v", err)
	}
}

// TestWhatWillKeepTheTablesFromBeingExchangedIsSaidAtOnce starts with a materialized view on the
// tables, and drops it later.
func TestWhatWillKeepTheTablesFromBeingExchangedIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendMoves(t, pool, "a", 1)
	drain(t, workerOf(t, pool, nil, tripled(1)))
	exec(t, pool, `CREATE MATERIALIZED VIEW kept AS SELECT campaign_id FROM counters`)
	two := workerOf(t, pool, nil, tripled(2))
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	const refusal = `SELECT coalesce(string_agg(refusal || (refused_at IS NOT NULL)::text, ' '), '')
		FROM tidemark.rebuilds`
	const why = "the tables cannot be swapped, because these depend on the old ones: rule _RETURN on materialized view " +
		"kept, which stands on counters: drop them first and create them again afterwards"
	if got := query[string](t, pool, refusal); got != "when the rebuild began, "+why+"false" {
		t.Errorf("at the beginning it is said that %q", got)
	}
	drain(t, two)
	if got := query[string](t, pool, refusal); got != why+"true" {
		t.Errorf("at the exchange it is said that %q", got)
	}
	expectSums(t, pool, "a1")
	exec(t, pool, `DROP MATERIALIZED VIEW kept`)
	start(t, pool, rebuild.Options{}) // retries at once
	drain(t, two)
	expectSums(t, pool, "a2")
}
