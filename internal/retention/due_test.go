package retention_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/retention"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// onlySession returns a pool of one session, so that one session's statistics are those of all.
func onlySession(t *testing.T) *pgxpool.Pool {
	t.Helper()
	cfg := pgtest.New(t).Config().Copy()
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// read returns how many rows of the journal, and entries of its indexes, a run of the policies reads.
func read(t *testing.T, pool *pgxpool.Pool, r *retention.Runner) (n int64) {
	t.Helper()
	const count = `SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relid = 'tidemark.journal'::regclass)
		+ (SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = 'tidemark.journal'::regclass)`
	var before int64
	exec(t, pool, `SELECT pg_stat_force_next_flush()`)
	must(t, pool.QueryRow(t.Context(), count).Scan(&before))
	again(t, pool, r)
	exec(t, pool, `SELECT pg_stat_force_next_flush()`)
	must(t, pool.QueryRow(t.Context(), count).Scan(&n))
	return n - before
}

func TestARunReadsNothingOfWhatIsArchivedOrUnchanged(t *testing.T) {
	t.Parallel()
	measure := func(campaigns int) (idle, one int64) {
		pool := onlySession(t)
		r := runner(t, pool, "a", shut)
		exec(t, pool, `SELECT tidemark.append('c' || n, '[{"type": "opened"}, {"type": "closed", "tags": ["a"]}]')
			FROM generate_series(1, $1::int) n`, campaigns)
		exec(t, pool, `SELECT tidemark.append('open' || n, '[{"type": "opened"}]') FROM generate_series(1, $1::int) n`,
			campaigns)
		again(t, pool, r)
		if n := value(t, pool, `SELECT count(*) FROM tidemark.journal WHERE event_version = 0`); n == "0" {
			t.Fatal("nothing is archived")
		}
		idle = read(t, pool, r)
		exec(t, pool, `SELECT tidemark.append('oak', '[{"type": "opened"}, {"type": "closed"}]')`)
		one = read(t, pool, r)
		if n := value(t, pool, `SELECT count(*) FROM tidemark.journal
			WHERE event_version = 0 AND campaign_id = 'oak'`); n != "1" {
			t.Errorf("with %d others, a closed campaign is not archived", campaigns)
		}
		return idle, one
	}
	idleFew, oneFew := measure(10)
	idleMany, oneMany := measure(800)
	if idleMany > idleFew || oneMany > oneFew+20 { // an index of another height
		t.Errorf("a run reads %d rows, %d among many; with one to archive %d, and %d", idleFew, idleMany, oneFew, oneMany)
	}
}

func TestAPolicyLooksAgainAtWhatMayHaveChanged(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	r := runner(t, pool, "a", shut)
	expect := func(when, want string) {
		t.Helper()
		again(t, pool, r)
		if ids := archived(t, pool); ids != want {
			t.Errorf("%s, archived %q, want %q", when, ids, want)
		}
	}
	closeOne := func(id string) {
		exec(t, pool, `SELECT tidemark.append($1, '[{"type": "opened"}, {"type": "closed"}]')`, id)
	}
	closeOne("ash")
	exec(t, pool, `SELECT tidemark.append_at('ash', clock_timestamp() + interval '1 hour', '[{"type": "opened"}]')`)
	expect("with a scheduled append", "")
	closeOne("oak")
	expect("another is closed", "oak")
	exec(t, pool, `DELETE FROM tidemark.scheduled`)
	expect("without the scheduled append", "ash oak")

	closeOne("elm")
	exec(t, pool, `SELECT tidemark.append('elm', '[{"type": "opened"}]')`)
	expect("open again", "ash oak")
	exec(t, pool, `SELECT tidemark.append('elm', '[{"type": "closed"}]')`)
	expect("closed again", "ash elm oak")

	_, err := archive.Restore(t.Context(), pool, r.Store, archive.RestoreRequest{Campaigns: []string{"ash", "elm"}})
	must(t, err)
	exec(t, pool, `SELECT tidemark.append('elm', '[{"type": "opened"}]')`)
	expect("two are back, one of them open", "ash oak")
	if n := value(t, pool, `SELECT count(*) FROM tidemark.retention_due`); n != "0" {
		t.Errorf("it looks at %s campaigns, of which none is closed", n)
	}

	later := shut
	later.Types, later.ClosedFor = []string{"opened"}, time.Hour
	r.Policies = []retention.Policy{later}
	expect("other types, an hour later", "ash oak")
	if n := value(t, pool, `SELECT string_agg(campaign_id, ' ') FROM tidemark.retention_due
		WHERE due_at > now() + interval '50 min'`); n != "elm" {
		t.Errorf("due in an hour is %q", n)
	}
	later.ClosedFor = time.Microsecond
	r.Policies = []retention.Policy{later}
	expect("other types, at once", "ash elm oak")

	exec(t, pool, `UPDATE tidemark.retention SET position = position + 1000`) // as in a copy of an earlier journal
	exec(t, pool, `SELECT tidemark.append('yew', '[{"type": "opened"}]')`)
	expect("a place beyond the journal", "ash elm oak yew")
}
