package chaos_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/pgtest"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/internal/tally"
)

// TestAClaimThatACrashForgotIsNotWorkedOnTwice has the server forget a claim, which does not wait for the disk, while the worker holds it. The worker claims the
// campaign once more, under the same generation, which is all that the fence could tell the two by. It catches up, where no checkpoint moves either.
func TestAClaimThatACrashForgotIsNotWorkedOnTwice(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	before, err := projector.New(projector.Config{Pool: pool, Projections: []projector.Projection{tally.Tallies("")}})
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
		Pool: pool, Projections: tally.Both(), Concurrency: 2, PollInterval: 20 * time.Millisecond,
		OnStep: func(step projector.Step) {
			if step == projector.StepClaimed && claims.Add(1) == 1 {
				close(halted)
				<-proceed
			}
		},
	})
	<-halted
	generation := tally.Value[int64](t, pool, `UPDATE tidemark.leases SET generation = generation - 1, expires_at = '-infinity' RETURNING generation + 1`)
	tally.Eventually(t, "the campaign is claimed once more", tally.Holds(pool, `SELECT generation = $1 FROM tidemark.leases WHERE campaign_id = 'a'`, generation))
	// The other goroutine does this after whatever it was given of the campaign.
	tally.Append(t, pool, "b", 1)
	tally.Eventually(t, "another campaign is applied", tally.Holds(pool, `SELECT EXISTS (SELECT FROM entries WHERE campaign_id = 'b')`))
	close(proceed)
	tally.Settle(t, pool, group)
	tally.Append(t, pool, "a", 4)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
}

func TestAnApplyThatTakesLongerThanALeaseLivesIsNotTakenOver(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	slow := func(ctx context.Context, g *projector.Group, e journal.Event) error {
		if e.CampaignID != "slow" || e.Seq > 1 {
			return nil
		}
		tx, err := g.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `SELECT pg_sleep(2.5)`)
		return err
	}
	for _, name := range []string{"one", "other"} {
		tally.Run(t, projector.Config{
			Pool: tally.Pool(t, pool.Config().ConnString(), name, 6), Projections: []projector.Projection{tally.Entries("", slow), tally.Tallies("")},
			LeaseTTL: time.Second, PollInterval: 100 * time.Millisecond,
		})
	}
	tally.Append(t, pool, "slow", 1, 2, 3)
	tally.Append(t, pool, "quick", 1, 2, 3)
	tally.Eventually(t, "the slow campaign is applied", tally.Holds(pool, `SELECT EXISTS (SELECT FROM entries WHERE campaign_id = 'slow')`))
	if n := tally.Value[int](t, pool, `SELECT generation FROM tidemark.leases WHERE campaign_id = 'slow'`); n != 1 {
		t.Errorf("the slow campaign was leased %d times until it was applied", n)
	}
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
}
