package failover_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/waiter"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// token appends an amount, and returns the token of the event.
func token(t *testing.T, pool *pgxpool.Pool, campaign string) (token string) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		all, err := journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any, tally.Event(1))
		if err == nil {
			token = all[0].Token()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return token
}

// TestAWaitForALostEventIsAnswered loses events that programs wait for, before a worker has applied them.
// Others take their places.
func TestAWaitForALostEventIsAnswered(t *testing.T) {
	t.Parallel()
	for name, begin := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := begin(t)
			pool := tally.Pool(t, l.url, "test", 4)
			cfg := projector.Config{
				Pool: tally.Pool(t, l.url, "worker", 8), LeaseTTL: 3 * time.Second, PollInterval: 100 * time.Millisecond,
				Projections: append(tally.Across(1, nil), tally.Both()...),
			}
			p, err := projector.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			w := waiter.New(pool, nil)
			go func() { _ = w.Run(t.Context()) }()
			ended := map[string]chan error{"entries": result(), "boards": result()}
			kept := token(t, pool, "kept")
			tally.Exec(t, pool, `SELECT tidemark.keep_history()`) // as each worker does
			l.forget(t)
			answers(t, pool)
			lost := token(t, pool, "lost")
			for name, end := range ended {
				go func() { end <- w.Wait(t.Context(), lost, name) }()
			}
			tally.Eventually(t, "the waits are under way", tally.Holds(pool, `SELECT last_value > 0 FROM tidemark.awaited`))
			l.lose(t)
			answers(t, pool)
			token(t, pool, "lost") // it may have the seq and the position
			tally.Run(t, cfg)
			for name, end := range ended {
				for which, err := range map[string]error{
					"of before": <-end, "of after": w.Wait(t.Context(), lost, name),
				} {
					var replaced *waiter.NotAppliedError
					if (err == nil) != l.kept || err != nil && (!errors.As(err, &replaced) ||
						replaced.Status != waiter.Replaced) {
						t.Errorf("the wait %s for %s ends with %v", which, name, err)
					}
				}
				if err := w.Wait(t.Context(), kept, name); err != nil {
					t.Errorf("a wait for what is kept: %v", err)
				}
			}
		})
	}
}

func result() chan error { return make(chan error, 1) }
