package crash_test

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/internal/tally"
	"github.com/tidemark-go/tidemark/test/internal/worker"
)

func TestTakeover(t *testing.T) {
	t.Parallel()
	for name, noListen := range map[string]bool{"listening": false, "polling_alone": true} {
		t.Run("comes_one_lease_life_after_a_crash_and_not_two_"+name, func(t *testing.T) {
			t.Parallel()
			pool, url := prepared(t, "a")
			cfg := standard(url, "victim")
			cfg.LeaseTTL, cfg.NoListen = 3*time.Second, noListen
			halting := cfg
			halting.HaltAt = projector.StepClaimed
			victim := worker.Start(t, halting)
			victim.Halts(t)
			cfg.Name = "successor"
			worker.Start(t, cfg)
			tally.Eventually(t, "the successor lives", tally.Holds(pool, `SELECT count(*) = 2 FROM tidemark.workers`))
			victim.Kill(t)
			death := tally.Value[time.Time](t, pool, `SELECT clock_timestamp()`)
			tally.Eventually(t, "the victim's connections are closed", tally.Holds(pool,
				`SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'victim')`))
			expiry := tally.Value[time.Time](t, pool, `SELECT expires_at FROM tidemark.leases`)
			tally.Settle(t, pool, group)
			tally.Verify(t, pool, "")
			takeover := tally.Value[time.Time](t, pool, `SELECT max(applied_at) FROM entries`)
			if takeover.Before(expiry) {
				t.Errorf("the campaign was taken over %v before its lease expired", expiry.Sub(takeover))
			}
			if took := takeover.Sub(death); took >= 2*cfg.LeaseTTL {
				t.Errorf("the takeover took %v after the death of the owner of a lease of %v", took, cfg.LeaseTTL)
			}
			if left := expiry.Sub(death); left > cfg.LeaseTTL {
				t.Errorf("the lease lives %v after the death of its owner, its life is %v", left, cfg.LeaseTTL)
			}
		})
	}
}

func TestTwoWorkersShareOneCampaign(t *testing.T) {
	t.Parallel()
	pool, url := prepared(t)
	for _, name := range []string{"one", "other"} {
		worker.Start(t, standard(url, name))
	}
	load := tally.Load{Pool: pool, Writers: 2, Campaigns: 1, Pause: time.Millisecond}.Start(t)
	tally.Eventually(t, "both have applied events", tally.Holds(pool, `SELECT count(*) = 2 FROM tidemark.workers WHERE events_applied > 0`))
	load.Stop(t, pool)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
}
