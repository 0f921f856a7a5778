package projector_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/bulk"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestWhatOperatorsDoWakesWorkers lets a session wait as a worker does. Then an operator's act
// gives workers something to do.
func TestWhatOperatorsDoWakesWorkers(t *testing.T) {
	t.Parallel()
	ada := failed.Act{By: "ada", Reason: "mended"}
	key := failed.Key{Projection: "picky", CampaignID: "a"}
	// These steps lead to a state in which an act makes sense: a failed campaign, a pause, or a
	// gap.
	moveThenFail := func(ctx context.Context, tx pgx.Tx) error { return move(ctx, tx, "a", -1) }
	paused := func(target pause.Target) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			if err := pause.Set(ctx, tx, target, "ada", "to look", 0); err != nil {
				return err
			}
			return move(ctx, tx, "a", 2)
		}
	}
	resumed := func(target pause.Target) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error { return pause.Resume(ctx, tx, target, "ada", "seen") }
	}
	group, projection, campaign := pause.Target{Group: "default"}, pause.Target{Group: "default", Projection: "picky"},
		pause.Target{Group: "default", CampaignID: "a"}
	for name, c := range map[string]struct {
		before, act func(context.Context, pgx.Tx) error
	}{
		"requeue": {moveThenFail, func(ctx context.Context, tx pgx.Tx) error { return failed.Requeue(ctx, tx, key, ada) }},
		"requeue all": {moveThenFail, func(ctx context.Context, tx pgx.Tx) error {
			_, err := bulk.Requeue(ctx, tx, failed.Filter{Projection: "picky"}, ada)
			return err
		}},
		"resolve": {moveThenFail, func(ctx context.Context, tx pgx.Tx) error { return failed.Resolve(ctx, tx, key, 2, ada) }},
		"replay": {moveThenFail, func(ctx context.Context, tx pgx.Tx) error {
			_, err := failed.Replay(ctx, tx, failed.ReplayRequest{
				Group: "default", Projection: "picky",
				Campaigns: []string{"a"},
			}, ada)
			return err
		}},
		"resume of the group":      {paused(group), resumed(group)},
		"resume of the projection": {paused(projection), resumed(projection)},
		"resume of the campaign":   {paused(campaign), resumed(campaign)},
		"repair": {
			func(ctx context.Context, tx pgx.Tx) error {
				if err := move(ctx, tx, "a", 2); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, `DELETE FROM tidemark.outbox`)
				return err
			},
			func(ctx context.Context, tx pgx.Tx) error {
				return outbox.RepairGap(ctx, tx, outbox.Gap{Group: "default", CampaignID: "a", Checkpoint: 1}, "ada", "")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			p := workerOf(t, pool, nil, newPicky(nil).failWith(failNegative))
			appendMoves(t, pool, "a", 1)
			drain(t, p)
			does(t, pool, c.before)
			drain(t, p)
			conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
			if _, err := conn.Exec(t.Context(), "LISTEN "+lease.Channel); err != nil {
				t.Fatal(err)
			}
			if err := lease.Wait(t.Context(), pool, time.Hour); err != nil {
				t.Fatal(err)
			}
			does(t, pool, c.act)
			patient, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if _, err := conn.WaitForNotification(patient); err != nil {
				t.Errorf("nobody is woken: %v", err)
			}
		})
	}
}

func does(t *testing.T, pool *pgxpool.Pool, act func(context.Context, pgx.Tx) error) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return act(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

// move appends an event in the caller's transaction.
func move(ctx context.Context, tx pgx.Tx, campaign string, by int) error {
	_, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any,
		event.Event{Type: "moved", Payload: fmt.Appendf(nil, `{"by": %d}`, by)})
	return err
}
