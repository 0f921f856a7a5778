package chaos_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// TestAClaimThatACrashForgotIsNotWorkedOnTwice makes the server forget a claim, which does not wait
// for the disk, while the worker holds it. The worker then claims the campaign again under the same
// generation, so the fence cannot tell the two claims apart. The worker is catching up, so no
// checkpoint moves either.
func TestAClaimThatACrashForgotIsNotWorkedOnTwice(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	before, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{tally.Tallies("")}})
	if err != nil {
		t.Fatal(err)
	}
	tally.Append(t, pool, "a", 1, 2, 3)
	if _, err := before.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}

	var claims atomic.Int64
	halted, proceed := make(chan struct{}), make(chan struct{})
	tally.Run(t, projector.Config{
		Pool: pool, Projections: tally.Both(), Concurrency: 2, PollInterval: 100 * time.Millisecond,
		OnStep: func(step kind.Step) {
			if step == kind.StepClaimed && claims.Add(1) == 1 {
				close(halted)
				<-proceed
			}
		},
	})
	<-halted
	generation := tally.Value[int64](t, pool, `UPDATE tidemark.leases SET generation = generation - 1,
		expires_at = '-infinity' RETURNING generation + 1`)
	tally.Eventually(t, "the campaign is claimed once more", tally.Holds(pool, `SELECT generation = $1
		FROM tidemark.leases WHERE campaign_id = 'a'`, generation))
	// The other goroutine applies this after everything it was given of campaign a.
	tally.Append(t, pool, "b", 1)
	tally.Eventually(t, "another campaign is applied", tally.Holds(pool, `SELECT EXISTS (SELECT FROM entries
		WHERE campaign_id = 'b')`))
	close(proceed)
	tally.Settle(t, pool, group)
	tally.Append(t, pool, "a", 4)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
}

// Whether a lease is renewed in time depends on the load of the machine. So the test retries from
// the beginning with a lease TTL four times as long.
func TestAnApplyThatTakesLongerThanALeaseLivesIsNotTakenOver(t *testing.T) {
	t.Parallel()
	for ttl := time.Second; ; ttl *= 4 {
		n := leasedWhileApplied(t, ttl)
		if n == 1 {
			return
		}
		if ttl > 10*time.Second {
			t.Fatalf("a campaign was leased %d times until it was applied, each time for %v", n, ttl)
		}
	}
}

// leasedWhileApplied returns how often a campaign was leased until it was applied, which takes
// longer than the lease TTL.
func leasedWhileApplied(t *testing.T, ttl time.Duration) (n int) {
	t.Helper()
	pool := pgtest.New(t)
	slow := func(ctx context.Context, g *projection.Group, e event.Event) error {
		if e.CampaignID != "slow" || e.Seq > 1 {
			return nil
		}
		tx, err := g.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `SELECT pg_sleep($1)`, 2.5*ttl.Seconds())
		return err
	}
	for _, name := range []string{"one", "other"} {
		defer tally.Run(t, projector.Config{
			Pool:        tally.Pool(t, pool.Config().ConnString(), name, 6),
			Projections: []projection.Projection{tally.Entries("", slow), tally.Tallies("")},
			LeaseTTL:    ttl, ApplyTimeout: 5 * ttl, PollInterval: 100 * time.Millisecond,
		})()
	}
	tally.Append(t, pool, "slow", 1, 2, 3)
	tally.Append(t, pool, "quick", 1, 2, 3)
	tally.Eventually(t, "the slow campaign is applied", tally.Holds(pool, `SELECT EXISTS (SELECT FROM entries
		WHERE campaign_id = 'slow')`))
	n = tally.Value[int](t, pool, `SELECT generation FROM tidemark.leases WHERE campaign_id = 'slow'`)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
	return n
}
