package crash_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

// TestAWorkerStoppedBeyondItsLease stops a worker with SIGSTOP and continues it after another
// worker has applied its events and later ones.
func TestAWorkerStoppedBeyondItsLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at      kind.Step
		patient bool
	}{
		"after_it_claimed":  {at: kind.StepClaimed},
		"after_it_read":     {at: kind.StepRead},
		"before_it_commits": {at: kind.StepApplied},
		// Only the fence can refuse this one.
		"before_it_commits_in_a_live_session": {at: kind.StepApplied, patient: true},
	} {
		t.Run("changes_nothing_when_it_was_stopped_"+name, func(t *testing.T) {
			t.Parallel()
			pool, url := prepared(t, "a", "b", "c")
			cfg := standard(url, "stopped")
			cfg.HaltAt, cfg.Concurrency, cfg.Patient = c.at, 1, c.patient
			stopped := worker.Start(t, cfg)
			stopped.Halts(t)
			stopped.Signal(t, syscall.SIGSTOP)
			stopped.Proceed(t)

			other := worker.Start(t, standard(url, "other"))
			tally.Append(t, pool, "b", 6)
			tally.Settle(t, pool, group)
			tally.Append(t, pool, "a", 6, 7)
			tally.Settle(t, pool, group)
			other.Terminate(t)

			stopped.Signal(t, syscall.SIGCONT)
			// The worker applies one group at a time, so its stale group has ended once these are
			// applied.
			tally.Append(t, pool, "c", 6, 7, 8)
			tally.Settle(t, pool, group)
			tally.Verify(t, pool, "")
			stopped.Terminate(t)
		})
	}
}

// TestAWorkerThatTakesItsOwnCampaignBack lets one process hold two leases on a campaign, one of
// them stale. The owner's name is not a token.
func TestAWorkerThatTakesItsOwnCampaignBack(t *testing.T) {
	t.Parallel()
	for _, at := range []kind.Step{kind.StepClaimed, kind.StepRead, kind.StepApplied} {
		t.Run(fmt.Sprintf("drops_what_it_had_%s_before", at), func(t *testing.T) {
			t.Parallel()
			pool, url := prepared(t, "a")
			cfg := standard(url, "stopped")
			cfg.HaltAt, cfg.Concurrency, cfg.Patient = at, 2, true
			stopped := worker.Start(t, cfg)
			stopped.Halts(t)
			stopped.Signal(t, syscall.SIGSTOP)
			other := worker.Start(t, standard(url, "other"))
			tally.Settle(t, pool, group)
			other.Terminate(t)

			stopped.Signal(t, syscall.SIGCONT)
			tally.Append(t, pool, "a", 6)
			tally.Settle(t, pool, group)
			if n := tally.Value[int](t, pool, `SELECT generation FROM tidemark.leases`); n < 3 {
				t.Errorf("the campaign was leased %d times, want once by each worker and once more by the first", n)
			}
			stopped.Proceed(t)
			tally.Eventually(t, "the stale group is dropped", func(context.Context) (bool, error) {
				return stopped.Said("lease lost") || stopped.Said("group not applied"), nil
			})
			tally.Append(t, pool, "a", 7)
			tally.Settle(t, pool, group)
			tally.Verify(t, pool, "")
			stopped.Terminate(t)
		})
	}
}
