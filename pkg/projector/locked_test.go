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

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// running runs a projector until the test ends.
func running(t *testing.T, p *projector.Projector) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// elsewhere begins a transaction of another application, which holds the locks that sql takes until
// end is called.
func elsewhere(t *testing.T, pool *pgxpool.Pool, sql ...string) (tx pgx.Tx, end func()) {
	t.Helper()
	config := pool.Config().ConnConfig.Copy()
	config.RuntimeParams["application_name"] = "reports"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if tx, err = conn.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	end = func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	for _, one := range sql {
		if _, err := tx.Exec(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	return tx, end
}

// TestALockedRowHoldsBackOnePairAlone lets another application lock the rows of one campaign out of
// a hundred, in the tables of projections of all kinds.
func TestALockedRowHoldsBackOnePairAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const campaigns, locked = 100, "c42"
	intricate := &projection.Handlers{
		Name: "intricate", Version: 1, Tables: `CREATE TABLE intricate
		(campaign_id text PRIMARY KEY, count bigint NOT NULL)`,
		On: []projection.Handler{
			projection.Handle("moved", func(ctx context.Context, g *projection.Group, e event.Event, _ moved) error {
				tx, err := g.Tx(ctx)
				if err != nil {
					return err
				}
				_, err = tx.Exec(ctx, `INSERT INTO intricate AS i VALUES ($1, 1) ON CONFLICT (campaign_id) DO UPDATE
			SET count = i.count + 1`, e.CampaignID)
				return err
			}),
		},
	}
	p := workerOf(t, pool, func(c *projector.Config) {
		c.OnFailure, c.LeaseTTL = projection.Policy{Action: projection.ActionSkip}, time.Hour // no lease expires
	}, append(kinds(t, "all"), intricate, ledger())...)
	appendAll := func() {
		batches := make([]journal.Batch, campaigns)
		for i := range batches {
			batches[i] = journal.Batch{CampaignID: fmt.Sprintf("c%d", i), Events: moveEvents(1)}
		}
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendAll(t.Context(), tx, batches...)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	appendAll()
	drain(t, p)
	running(t, p)
	// The campaigns that all projections have applied to the head.
	const done = `SELECT count(*) FROM tidemark.leases l WHERE l.checkpoint = $1
		AND NOT EXISTS (SELECT FROM tidemark.failed d WHERE d.campaign_id = l.campaign_id)`
	_, end := elsewhere(t, pool, `SELECT FROM document_all
		WHERE campaign_id = '`+locked+`' FOR UPDATE`, `SELECT FROM z_parent_all
		WHERE campaign_id = '`+locked+`' FOR UPDATE`,
		`SELECT FROM file_all WHERE campaign_id =
			'`+locked+`' FOR UPDATE`, `SELECT FROM intricate
			WHERE campaign_id = '`+locked+`' FOR UPDATE`)
	appendAll()
	const head = 2
	within(t, "the 99 others are applied while the rows are locked", func() bool {
		return query[int](t, pool, done, head) >= campaigns-1
	})
	within(t, "the four are filed", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark.failed WHERE error_class = 'lock'`) == 4
	})
	within(t, "they have been tried again", func() bool {
		return query[bool](t, pool, `SELECT bool_and(last_failed_at > first_failed_at) FROM tidemark.failed`)
	})
	expectText(t, pool, "pairs",
		"c42 document_all failed 0, c42 file_all failed 0, c42 handlers_all failed 0, c42 intricate failed 0",
		`SELECT string_agg(concat_ws(' ', campaign_id, projection, status, attempt_count), ', ' ORDER BY projection)
			FROM tidemark.failed`)
	for _, message := range strings.Split(query[string](t, pool, `SELECT string_agg(error_message, '|')
		FROM tidemark.failed`), "|") {
		if !strings.Contains(message, `application "reports", idle in transaction`) || !strings.Contains(message, "pid ") {
			t.Errorf("the holder of the lock is not named: %s", message)
		}
	}
	expectText(t, pool, "the log has each once", "4", `SELECT count(*)::text FROM tidemark.failure_log
		WHERE act = 'failed' AND seq = $1`, head)
	if n := query[int](t, pool, `SELECT count(*) FROM ledger WHERE campaign_id = $1`, locked); n != head {
		t.Errorf("a projection whose rows are not locked has %d events, want %d", n, head)
	}
	end()
	within(t, "all is applied", func() bool { return query[int](t, pool, done, head) == campaigns })
	if n := query[int](t, pool, `SELECT count FROM intricate WHERE campaign_id = $1`, locked); n != head {
		t.Errorf("%d events were applied, want %d: none is skipped for a lock", n, head)
	}
}

// TestALockedTableHoldsBackItsProjectionAlone locks a table as CREATE INDEX or a table rewrite
// does.
func TestALockedTableHoldsBackItsProjectionAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := workerOf(t, pool, func(c *projector.Config) { c.Concurrency = 1 }, append(kinds(t, "all"), ledger())...)
	const campaigns = 20 // each waits half a second for the lock
	appendAll := func() {
		for i := range campaigns {
			appendMoves(t, pool, fmt.Sprintf("c%d", i), 1, 1)
		}
	}
	appendAll()
	drain(t, p)
	for _, table := range kindsTables("all") {
		_, end := elsewhere(t, pool, `LOCK TABLE `+table+` IN ACCESS EXCLUSIVE MODE`)
		appendAll()
		head := query[int64](t, pool, `SELECT max(seq) FROM tidemark.journal`)
		drain(t, p) // ends while the table is locked
		expectText(t, pool, table, fmt.Sprintf("%d 1 t", campaigns), `SELECT concat_ws(' ', count(*),
			count(DISTINCT projection), bool_and(error_class = 'lock' AND attempt_count = 0)) FROM tidemark.failed`)
		expectText(t, pool, table+": checkpoints", fmt.Sprint(head), `SELECT min(checkpoint)::text FROM tidemark.leases`)
		end()
		retry(t, pool, p)
		expectPairs(t, pool, "")
	}
	sum := query[string](t, pool, `SELECT sum(count)::text FROM z_parent_all`)
	if want := query[string](t, pool, `SELECT count(*)::text FROM tidemark.journal`); sum != want {
		t.Errorf("%s events are applied, want %s", sum, want)
	}
}

// TestADeadlockHoldsBackItsPairsAlone lets another application wait for rows that a group has
// written while it holds rows that the group needs next.
func TestADeadlockHoldsBackItsPairsAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	config := pool.Config()
	config.ConnConfig.RuntimeParams["deadlock_timeout"] = "250ms" // shorter than the lock timeout
	impatient, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(impatient.Close)
	p := workerOf(t, impatient, func(c *projector.Config) { c.Concurrency = 1 }, kinds(t, "all")...)
	for _, id := range []string{"a", "b", "c", "d"} {
		appendMoves(t, pool, id, 1)
	}
	drain(t, p)
	tx, _ := elsewhere(t, pool, `SELECT FROM z_parent_all WHERE campaign_id = 'c' FOR UPDATE`)
	for _, id := range []string{"a", "b", "c", "d"} {
		appendMoves(t, pool, id, 1)
	}
	waits := make(chan error, 1)
	running(t, p)
	within(t, "the group waits", func() bool {
		return query[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted
			AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database()))`)
	})
	go func() {
		_, err := tx.Exec(t.Context(), `SELECT FROM z_parent_all WHERE campaign_id = 'a' FOR UPDATE`)
		waits <- err
	}()
	within(t, "the others are applied", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark.leases WHERE checkpoint = 2`) == 4
	})
	if err := <-waits; err != nil {
		t.Error(err)
	}
	within(t, "the two that it holds are behind", func() bool {
		return query[string](t, pool, `SELECT coalesce(string_agg(concat_ws(' ', campaign_id, projection, status,
			attempt_count, error_class), ', ' ORDER BY campaign_id), '') FROM tidemark.failed`) ==
			"a handlers_all failed 0 lock, c handlers_all failed 0 lock"
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	within(t, "all is applied", func() bool { return query[int](t, pool, `SELECT count(*) FROM tidemark.failed`) == 0 })
}

// TestALeaseThatIsBeingWrittenForLongHoldsBackItsCampaignAlone locks a lease row, as an application
// that idles after ApplyInline does. A worker's group has claimed that campaign before.
func TestALeaseThatIsBeingWrittenForLongHoldsBackItsCampaignAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var end func()
	p := workerOf(t, pool, func(c *projector.Config) {
		c.Concurrency, c.LeaseTTL = 1, time.Hour // no lease expires
		c.OnStep = func(s kind.Step) {
			if s == kind.StepRead && end == nil {
				_, end = elsewhere(t, pool, `SELECT FROM tidemark.leases WHERE campaign_id = 'c1' FOR UPDATE`)
			}
		}
	}, kinds(t, "all")...)
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		appendMoves(t, pool, fmt.Sprintf("c%d", i), 1)
	}
	running(t, p)
	within(t, "the others are applied while it is locked", func() bool {
		return query[string](t, pool, `SELECT coalesce(string_agg(campaign_id, ' ' ORDER BY campaign_id), '')
			FROM tidemark.leases WHERE checkpoint = 1 AND expires_at = '-infinity'`) == "c0 c2 c3"
	})
	end()
	exec(t, pool, `UPDATE tidemark.leases SET expires_at = clock_timestamp() WHERE campaign_id = 'c1'`)
	within(t, "it is applied", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark.leases WHERE checkpoint = 1`) == 4
	})
}

// TestAShortWaitLateInAGroupIsTriedAgain lets a statement wait for a lock after its group has used
// up the half second for lock waits. That happens when another backend extends a table. The lock is
// free once the statement has failed.
func TestAShortWaitLateInAGroupIsTriedAgain(t *testing.T) {
	t.Parallel()
	config := pgtest.New(t).Config()
	config.MaxConns = 2 // one is for the group
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	h := &projection.Handlers{
		Name: "late", Version: 1, Tables: `CREATE TABLE late (campaign_id text PRIMARY KEY, count bigint NOT NULL)`,
		On: []projection.Handler{
			projection.Handle("moved", func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
				if m.By > 0 {
					g.Queue(`SELECT pg_sleep($1)`, float64(m.By)/1000)
				}
				g.Queue(`INSERT INTO late AS l VALUES ($1, 1) ON CONFLICT (campaign_id) DO UPDATE SET count = l.count + 1`,
					e.CampaignID)
				return nil
			}),
		},
	}
	p := workerOf(t, pool, func(c *projector.Config) { c.Concurrency = 1 }, h)
	appendMoves(t, pool, "a", 0)
	appendMoves(t, pool, "b", 0)
	drain(t, p)
	waited := untilOneHasWaited(t, pool, `SELECT FROM late WHERE campaign_id = 'b' FOR UPDATE`)
	appendMoves(t, pool, "a", append(make([]int, 600), 600)...)
	appendMoves(t, pool, "b", 0)
	second, err := pool.Acquire(t.Context()) // so the worker cannot look up who holds the lock
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Drain(t.Context())
	second.Release()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	expectText(t, pool, "what has failed", "0 and 0", `SELECT (SELECT count(*) FROM tidemark.failed) || ' and '
		|| (SELECT count(*) FROM tidemark.failure_log)`)
	expectText(t, pool, "rows", "a 602, b 2",
		`SELECT string_agg(campaign_id || ' ' || count, ', ' ORDER BY campaign_id) FROM late`)
}

// untilOneHasWaited holds a lock in another session until the first wait for it is over.
func untilOneHasWaited(t *testing.T, pool *pgxpool.Pool, lock string) (waited <-chan error) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err == nil {
		_, err = conn.Exec(t.Context(), "BEGIN; "+lock)
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), `DO $$
			DECLARE
				first timestamptz;
				now timestamptz;
			BEGIN
				LOOP
					PERFORM pg_sleep(0.001);
					SELECT l.waitstart INTO now FROM pg_locks l
					WHERE NOT l.granted AND l.transactionid = pg_current_xact_id()::xid LIMIT 1;
					EXIT WHEN now IS DISTINCT FROM first AND first IS NOT NULL;
					first := now;
				END LOOP;
			END
			$$`)
		ended <- errors.Join(err, conn.Close(context.WithoutCancel(t.Context())))
	}()
	return ended
}
