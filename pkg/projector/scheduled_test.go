package projector_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// TestAWorkerMakesScheduledAppends runs workers that poll once an hour, so notifications and due
// times alone wake them.
func TestAWorkerMakesScheduledAppends(t *testing.T) {
	t.Parallel()
	for _, mode := range []projection.Mode{projection.ModeOutboxApplyOnly, projection.ModeInlineApplyOnly} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			p, err := projector.New(projector.Config{
				Pool: pool, Projections: []projection.Projection{tally.Tallies("")}, Mode: mode, PollInterval: time.Hour,
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- p.Run(ctx) }()
			t.Cleanup(func() {
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
			schedule := func(campaign string, in time.Duration, amount int64) {
				t.Helper()
				if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					_, err := journal.Journal{}.AppendAt(t.Context(), tx, campaign, time.Now().Add(in), tally.Event(amount))
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			asleep := tally.Holds(pool, `SELECT last_value > extract(epoch FROM now()) * 1000 + 60000 FROM tidemark.next_look`)
			tally.Eventually(t, "the worker sleeps", asleep)
			schedule("b", time.Hour, 1)
			schedule("a", 500*time.Millisecond, 2) // wakes the worker, which then sleeps until it is due
			tally.Eventually(t, "an append is applied", tally.Holds(pool, `SELECT EXISTS (SELECT FROM tallies WHERE campaign_id = 'a')`))
			tally.Eventually(t, "the worker sleeps", asleep)
			schedule("c", -time.Second, 3)
			tally.Eventually(t, "an append that is due is applied", tally.Holds(pool, `SELECT EXISTS (SELECT FROM tallies
				WHERE campaign_id = 'c')`))
			if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.journal`); n != 2 {
				t.Errorf("the journal has %d events", n)
			}
		})
	}
}
