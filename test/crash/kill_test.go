package crash_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

func TestAWorkerThatIsKilled(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]kind.Step{
		"after_it_claimed":                      kind.StepClaimed,
		"after_it_read":                         kind.StepRead,
		"in_the_middle_of_applying":             worker.Applying,
		"before_it_commits":                     kind.StepApplied,
		"after_a_commit_and_before_its_release": kind.StepCommitted,
	} {
		t.Run(name+"_loses_and_repeats_nothing", func(t *testing.T) {
			t.Parallel()
			pool, url := prepared(t, "a", "b", "c")
			cfg := standard(url, "victim")
			cfg.HaltAt, cfg.Concurrency = at, 1
			if at == kind.StepCommitted {
				cfg.GroupEvents = 4 // of five, so the lease is kept for the rest
			}
			victim := worker.Start(t, cfg)
			victim.Halts(t)
			if tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.leases WHERE expires_at > now()`) == 0 {
				t.Error("the worker holds no lease when it is killed")
			}
			if n := tally.Value[int](t, pool, `SELECT count(*) FROM entries`); (n > 0) != (at == kind.StepCommitted) {
				t.Errorf("%d events are applied when the worker is killed", n)
			}
			victim.Kill(t)
			worker.Start(t, standard(url, "successor"))
			tally.Append(t, pool, "b", 6, 7)
			tally.Settle(t, pool, group)
			tally.Verify(t, pool, "")
		})
	}
	t.Run("while_its_commit_is_under_way_loses_and_repeats_nothing", func(t *testing.T) {
		t.Parallel()
		pool, url := prepared(t, "a", "b", "c")
		let := holdCommits(t, pool)
		victim := worker.Start(t, standard(url, "victim"))
		tally.Eventually(t, "a commit waits", tally.Holds(pool, `SELECT EXISTS (SELECT FROM pg_locks
			WHERE locktype = 'advisory' AND objid = 77 AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`))
		victim.Kill(t)
		worker.Start(t, standard(url, "successor"))
		// The server keeps committing for a client that is gone. No worker takes over the campaigns
		// before the commit is decided.
		tally.Eventually(t, "the leases have expired", tally.Holds(pool, `SELECT bool_and(expires_at < clock_timestamp())
			FROM tidemark.leases`))
		if n := tally.Value[int](t, pool, `SELECT count(*) FROM entries`); n != 0 {
			t.Errorf("%d events are applied while the commit waits", n)
		}
		let()
		tally.Append(t, pool, "b", 6, 7)
		tally.Settle(t, pool, group)
		tally.Verify(t, pool, "")
	})
}

// holdCommits makes commits of applied events wait until the returned function is called.
func holdCommits(t *testing.T, pool *pgxpool.Pool) (let func()) {
	t.Helper()
	tally.Exec(t, pool, `
		CREATE FUNCTION hold_commit() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_advisory_xact_lock_shared(77);
			RETURN NULL;
		END $$;
		CREATE CONSTRAINT TRIGGER hold_commit AFTER INSERT ON entries DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION hold_commit()`)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(77)`); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
