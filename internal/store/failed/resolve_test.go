package failed_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/test/support/bulk"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestResolvingWantsAReason(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	key := fail(t, pool, failed.Dead, "p", "c", 5)
	for name, act := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"one": func(ctx context.Context, tx pgx.Tx) error {
			return failed.Resolve(ctx, tx, key, 5, failed.Act{By: "ada", Reason: " "})
		},
		"all": func(ctx context.Context, tx pgx.Tx) error {
			_, err := bulk.Resolve(ctx, tx, failed.Filter{}, failed.Act{By: "ada"})
			return err
		},
	} {
		if err := in(t, pool, act); err == nil || !strings.Contains(err.Error(), "Reason is missing") {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	if got := standing(t, pool, key); !strings.HasPrefix(got, "5 dead") {
		t.Errorf("the pair stands at %s", got)
	}
}

func TestResolvingAnotherEventIsAConflict(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	key := fail(t, pool, failed.Dead, "p", "c", 5)
	err := in(t, pool, func(ctx context.Context, tx pgx.Tx) error { return failed.Resolve(ctx, tx, key, 4, operator()) })
	if !errors.Is(err, failed.ErrConflict) || !strings.Contains(err.Error(), "it stands before event 5") {
		t.Errorf("got error %v", err)
	}
	if got := standing(t, pool, key); !strings.HasPrefix(got, "5 dead") {
		t.Errorf("the pair stands at %s", got)
	}
}

func TestResolvingTakesTheCampaignFromItsWorker(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	key := fail(t, pool, failed.Failed, "p", "c", 5)
	other := fail(t, pool, failed.Failed, "p", "d", 7)
	exec(t, pool, `INSERT INTO tidemark.leases VALUES ('g', 'c', 'w', 1, now() + interval '1 hour', 9),
		('g', 'd', 'w', 1, now() + interval '1 hour', 9)`)
	worker := lease.Keeper{Group: "g", Owner: "w", TTL: time.Minute}
	advance := func(campaign string) error {
		return in(t, pool, func(ctx context.Context, tx pgx.Tx) error {
			batch := &pgx.Batch{}
			worker.Advance(batch, []lease.Step{{CampaignID: campaign, Generation: 1, From: 9, To: 9}})
			return lease.Error(tx.SendBatch(ctx, batch).Close())
		})
	}
	if err := in(t, pool, func(ctx context.Context, tx pgx.Tx) error {
		return failed.Resolve(ctx, tx, key, 5, operator())
	}); err != nil {
		t.Fatal(err)
	}
	if err := advance("c"); !errors.Is(err, lease.ErrLost) {
		t.Errorf("what the worker did by the old place ends with %v", err)
	}
	if err := advance("d"); err != nil {
		t.Errorf("the worker has lost a campaign that nobody acted on: %v", err)
	}
	err := in(t, pool, func(ctx context.Context, tx pgx.Tx) error {
		keys, err := bulk.Resolve(ctx, tx, failed.Filter{Status: []failed.Status{failed.Failed}}, operator())
		if got, want := names(keys), []string{"p/d"}; !slices.Equal(got, want) {
			t.Errorf("resolved %v, want %v", got, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := advance("d"); !errors.Is(err, lease.ErrLost) {
		t.Errorf("what the worker did by the old place ends with %v", err)
	}
	if got := standing(t, pool, other); !strings.HasPrefix(got, "8 catching_up") {
		t.Errorf("the pair stands at %s", got)
	}
	if got, want := query[string](t, pool, `SELECT error_message FROM tidemark.failure_log WHERE act = 'resolved'
		AND campaign_id = 'd'`), "division by zero at d"; got != want {
		t.Errorf("of what was skipped the log keeps %q, want %q", got, want)
	}
}

// A worker locks the lease first and then writes the row of failed. An act takes the same order, so
// they cannot deadlock.
func TestResolvingWaitsForAWorkerThatIsCommitting(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	key := fail(t, pool, failed.Failed, "p", "c", 5)
	exec(t, pool, `INSERT INTO tidemark.leases VALUES ('g', 'c', 'w', 1, now() + interval '1 hour', 9)`)
	worker, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	batch := &pgx.Batch{}
	lease.Keeper{Group: "g", Owner: "w", TTL: time.Minute}.Advance(batch,
		[]lease.Step{{CampaignID: "c", Generation: 1, From: 9, To: 9}})
	if err := worker.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	resolved := make(chan error, 1)
	go func() {
		resolved <- in(t, pool, func(ctx context.Context, tx pgx.Tx) error {
			return failed.Resolve(ctx, tx, key, 5, operator())
		})
	}()
	waiting := func() bool {
		return query[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock')`)
	}
	for deadline := time.Now().Add(2 * time.Minute); !waiting(); {
		if time.Now().After(deadline) {
			t.Fatal("the operator does not wait for the worker")
		}
	}
	if _, err := worker.Exec(t.Context(), `DELETE FROM tidemark.failed
		WHERE campaign_id = 'c'`); err != nil { // it has caught up
		t.Fatal(err)
	}
	if err := worker.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-resolved; !errors.Is(err, failed.ErrNotFound) {
		t.Errorf("got error %v, want %v", err, failed.ErrNotFound)
	}
}
