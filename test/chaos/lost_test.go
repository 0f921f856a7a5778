package chaos_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// TestAWorkerWhoseLeaseIsTakenChangesNothing takes a lease from a worker that has no reason to
// doubt it. Only the fence at the end of the group can stop it.
func TestAWorkerWhoseLeaseIsTakenChangesNothing(t *testing.T) {
	t.Parallel()
	for _, at := range []kind.Step{kind.StepClaimed, kind.StepRead, kind.StepApplied} {
		t.Run("when_it_has_"+at, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			tally.Append(t, pool, "a", 1, 2, 3)
			var steps atomic.Int64
			halted, proceed := make(chan struct{}), make(chan struct{})
			tally.Run(t, projector.Config{
				Pool: pool, Projections: tally.Both(), LeaseTTL: time.Minute, PollInterval: 100 * time.Millisecond, Concurrency: 1,
				OnStep: func(step kind.Step) {
					if step == at && steps.Add(1) == 1 {
						close(halted)
						<-proceed
					}
				},
			})
			<-halted
			tally.Exec(t, pool, `UPDATE tidemark.leases SET owner = 'another', generation = generation + 1,
				expires_at = now() + interval '50 seconds'`)
			close(proceed)
			// The worker applies one group at a time, so the old group has ended once this is
			// applied.
			tally.Append(t, pool, "b", 1)
			tally.Eventually(t, "another campaign is applied", tally.Holds(pool, `SELECT EXISTS (SELECT FROM entries
				WHERE campaign_id = 'b')`))
			if n := tally.Value[int](t, pool, `SELECT count(*) FROM entries WHERE campaign_id = 'a'`); n > 0 {
				t.Errorf("%d events were applied without the lease", n)
			}
			tally.Exec(t, pool, `UPDATE tidemark.leases SET expires_at = '-infinity' WHERE owner = 'another'`)
			tally.Settle(t, pool, group)
			tally.Verify(t, pool, "")
		})
	}
}
