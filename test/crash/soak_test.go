package crash_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// TestProcessesAndServersKilledAtRandomCostNoEventAnything kills processes and the server at
// random. No event is to blame for these deaths.
func TestProcessesAndServersKilledAtRandomCostNoEventAnything(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	if err := migrations.Up(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	pool := tally.Pool(t, server.URL(), "test", 6)
	r := &replicas{cfg: standard(server.URL(), "")}
	r.cfg.PollInterval, r.cfg.GroupEvents = 100*time.Millisecond, 20
	r.start(t, 3)
	tally.Eventually(t, "the workers live", tally.Holds(pool, `SELECT count(*) = 3 FROM tidemark.workers`))
	load := tally.Load{Pool: pool, Writers: 3, Campaigns: 40, Pause: 5 * time.Millisecond}.Start(t)
	kills := time.NewTicker(300 * time.Millisecond)
	defer kills.Stop()
	for n := range 14 {
		<-kills.C
		if n%6 == 5 {
			if err := server.Restart(t.Context(), devpg.Immediate); err != nil {
				t.Fatal(err)
			}
			continue
		}
		victim := r.running[rand.IntN(len(r.running))]
		if !victim.Ended() {
			victim.Signal(t, syscall.SIGKILL)
			victim.Ends(t)
		}
		r.restart(t)
	}
	load.Stop(t, pool)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.failure_log`); n > 0 {
		t.Errorf("%d failures are logged, for instance: %s", n, tally.Value[string](t, pool, `SELECT (f.*)::text FROM
			tidemark.failure_log f LIMIT 1`))
	}
	t.Logf("%d kills", r.crashes)
	for _, p := range r.running {
		p.Terminate(t)
	}
}
