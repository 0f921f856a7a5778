package groups_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

// TestAWorkerThatDoesNotKnowAProjectionFilesIt is a rolling upgrade that stops halfway: the newer
// binary has registered the projection "entries", and the older one does the work.
func TestAWorkerThatDoesNotKnowAProjectionFilesIt(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	newer, err := projector.New(projector.Config{Pool: pool, Projections: tally.Both()})
	if err != nil {
		t.Fatal(err)
	}
	tally.Append(t, pool, "a", 1, 2)
	if _, err := newer.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}

	older := worker.Start(t, worker.Config{URL: pool.Config().ConnString(), Name: "older", TalliesOnly: true})
	tally.Append(t, pool, "a", 3, 4)
	tally.Append(t, pool, "b", 1)
	tally.Eventually(t, "the older worker has applied all", tally.Holds(pool, `SELECT NOT EXISTS (SELECT
		FROM tidemark.outbox)`))
	if filed := tally.Value[string](t, pool, `SELECT string_agg(concat_ws(' ', campaign_id, projection, next_seq,
		status), ', ' ORDER BY campaign_id) FROM tidemark.failed`); filed !=
		"a entries 3 catching_up, b entries 1 catching_up" {
		t.Errorf("filed is: %s", filed)
	}
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM entries`); n != 2 {
		t.Errorf("the older worker has applied %d events to a projection it does not know", n-2)
	}

	// Both continue side by side.
	worker.Start(t, worker.Config{URL: pool.Config().ConnString(), Name: "newer"})
	tally.Append(t, pool, "a", 5)
	tally.Append(t, pool, "c", 1, 2, 3)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
	older.Terminate(t)
}

// TestARegistrationWaitsForGroupsUnderWay registers a projection while a worker that does not know
// it is about to commit. Otherwise a campaign could move without a row in failed and never catch
// up.
func TestARegistrationWaitsForGroupsUnderWay(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if err := outbox.Register(t.Context(), pool, group); err != nil {
		t.Fatal(err)
	}
	tally.Append(t, pool, "a", 1, 2)
	older := worker.Start(t, worker.Config{
		URL: pool.Config().ConnString(), Name: "older", TalliesOnly: true, HaltAt: kind.StepApplied,
		LeaseTTL: time.Minute,
	})
	older.Halts(t)
	newer, err := projector.New(projector.Config{Pool: pool, Projections: tally.Both()})
	if err != nil {
		t.Fatal(err)
	}
	registered := make(chan error, 1)
	go func() { registered <- newer.Register(t.Context()) }()
	tally.Eventually(t, "the registration waits", func(ctx context.Context) (waits bool, err error) {
		if len(registered) > 0 {
			return true, nil // it did not wait
		}
		err = pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (
			SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits)
		return waits, err
	})
	older.Proceed(t)
	if err := <-registered; err != nil {
		t.Fatal(err)
	}
	if _, err := newer.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
}
