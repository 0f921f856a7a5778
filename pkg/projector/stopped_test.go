package projector_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestAWorkerThatIsStoppedInTheMiddleOfAClaimLeavesNoLeaseBehind stops a worker while its claim
// waits inside the database, as on a busy server.
func TestAWorkerThatIsStoppedInTheMiddleOfAClaimLeavesNoLeaseBehind(t *testing.T) {
	t.Parallel()
	for name, behind := range map[string]bool{"live": false, "catch-up": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			p := workerOf(t, pool, func(c *projector.Config) { c.PollInterval = 100 * time.Millisecond }, counters())
			appendMoves(t, pool, "a", 1)
			if behind {
				drain(t, p)
				exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, reset)
					VALUES ('a', 'counters', 'default', 1, 'catching_up', true)`)
			} else if err := p.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			exec(t, pool, `CREATE FUNCTION wait_a_while() RETURNS trigger
				LANGUAGE plpgsql AS $$BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NEW; END$$`)
			exec(t, pool, `CREATE TRIGGER busy BEFORE INSERT
				OR UPDATE ON tidemark.leases FOR EACH ROW EXECUTE FUNCTION wait_a_while()`)
			busy, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := busy.Exec(t.Context(), `SELECT pg_advisory_xact_lock(42)`); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			const waiting = `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`
			becomes(t, pool, waiting)
			stop()
			if err := busy.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			// A claim can still run after its caller has returned.
			becomes(t, pool, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
				AND state <> 'idle' AND pid <> pg_backend_pid())`)
			if n := query[int](t, pool, `SELECT count(*) FROM tidemark.leases WHERE expires_at > clock_timestamp()`); n > 0 {
				t.Errorf("%d leases are left behind", n)
			}
		})
	}
}
