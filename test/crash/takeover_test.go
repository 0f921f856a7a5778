package crash_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

// How soon a worker takes over depends on the load of the machine. So the test retries from the
// beginning with a lease TTL four times as long.
func TestTakeover(t *testing.T) {
	t.Parallel()
	for name, noListen := range map[string]bool{"listening": false, "polling_alone": true} {
		t.Run("comes_one_lease_life_after_a_crash_and_not_two_"+name, func(t *testing.T) {
			t.Parallel()
			for ttl := 3 * time.Second; ; ttl *= 4 {
				err := takeover(t, ttl, noListen)
				if err == nil {
					return
				}
				if ttl > 10*time.Second {
					t.Fatal(err)
				}
				t.Log(err)
			}
		})
	}
}

// takeover returns an error if a worker takes over too late from a killed one. A takeover before
// the lease expires fails the test.
func takeover(t *testing.T, ttl time.Duration, noListen bool) error {
	t.Helper()
	pool, url := prepared(t, "a")
	cfg := standard(url, "victim")
	cfg.LeaseTTL, cfg.NoListen = ttl, noListen
	halting := cfg
	halting.HaltAt = kind.StepClaimed
	victim := worker.Start(t, halting)
	victim.Halts(t)
	cfg.Name = "successor"
	successor := worker.Start(t, cfg)
	tally.Eventually(t, "the successor lives", tally.Holds(pool, `SELECT count(*) = 2 FROM tidemark.workers`))
	victim.Kill(t)
	death := tally.Value[time.Time](t, pool, `SELECT clock_timestamp()`)
	tally.Eventually(t, "the victim's connections are closed", tally.Holds(pool,
		`SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'victim')`))
	expiry := tally.Value[time.Time](t, pool, `SELECT expires_at FROM tidemark.leases`)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
	successor.Terminate(t)
	applied := tally.Value[time.Time](t, pool, `SELECT max(applied_at) FROM entries`)
	if applied.Before(expiry) {
		t.Errorf("the campaign was taken over %v before its lease expired", expiry.Sub(applied))
	}
	if took := applied.Sub(death); took >= 2*ttl {
		return fmt.Errorf("the takeover took %v after the death of the owner of a lease of %v", took, ttl)
	}
	if left := expiry.Sub(death); left > ttl {
		return fmt.Errorf("the lease lives %v after the death of its owner, its life is %v", left, ttl)
	}
	return nil
}

func TestTwoWorkersShareOneCampaign(t *testing.T) {
	t.Parallel()
	pool, url := prepared(t)
	for _, name := range []string{"one", "other"} {
		worker.Start(t, standard(url, name))
	}
	load := tally.Load{Pool: pool, Writers: 2, Campaigns: 1, Pause: time.Millisecond}.Start(t)
	tally.Eventually(t, "both have applied events", tally.Holds(pool, `SELECT count(*) = 2 FROM tidemark.workers
		WHERE events_applied > 0`))
	load.Stop(t, pool)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
}
