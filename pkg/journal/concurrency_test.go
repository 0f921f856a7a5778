package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// appendAll appends batches in a transaction of its own.
func appendAll(ctx context.Context, pool *pgxpool.Pool, batches ...journal.Batch) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.AppendAll(ctx, tx, batches...)
		return err
	})
}

// oneEach returns a batch of one event for each campaign.
func oneEach(campaigns ...string) []journal.Batch {
	batches := make([]journal.Batch, len(campaigns))
	for i, c := range campaigns {
		batches[i] = journal.Batch{CampaignID: c, Events: noted(1)}
	}
	return batches
}

// eventually polls until done returns true.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// waitingForLock returns how many backends of the database wait for an advisory lock.
func waitingForLock(t *testing.T, db event.Querier) int {
	t.Helper()
	return query[int](t, db,
		"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM "+
			"pg_database WHERE datname = current_database())")
}

func TestCallsForTheSameCampaignsInAnyOrderNeverDeadlock(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const writers, calls = 8, 12
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprint("c", i)
	}
	var g errgroup.Group
	var events atomic.Int64
	for w := range writers {
		g.Go(func() error {
			for range calls {
				campaigns := slices.Clone(many[:8])
				if w == 0 {
					campaigns = slices.Clone(many)
				}
				rand.Shuffle(len(campaigns), func(i, j int) { campaigns[i], campaigns[j] = campaigns[j], campaigns[i] })
				events.Add(int64(len(campaigns)))
				if err := appendAll(t.Context(), pool, oneEach(campaigns...)...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	checkGapless(t, pool, int(events.Load()))
}

// An import waits for an idle transaction that holds one of its campaigns. Appends to other
// campaigns still go through.
func TestAnImportThatWaitsHoldsUpOnlyItsOwnCampaigns(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	campaigns := make([]string, 600)
	for i := range campaigns {
		campaigns[i] = fmt.Sprint("c", i)
	}
	idle, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (journal.Journal{}).Append(t.Context(), idle, "c300", journal.Any, noted(1)...); err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	g.Go(func() error { return appendAll(t.Context(), pool, oneEach(campaigns...)...) })
	eventually(t, "the import waits for the idle one", func() bool { return waitingForLock(t, pool) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 100 {
		if _, err := appendTo(ctx, pool, fmt.Sprint("other", i), journal.Any, noted(1)...); err != nil {
			t.Fatalf("an append to another campaign: %v", err)
		}
	}
	if err := idle.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	checkGapless(t, pool, 701)
}

// A transaction is refused before it exhausts the lock table, in one call or in many.
func TestATransactionAppendsToAThousandCampaignsAtMost(t *testing.T) {
	t.Parallel()
	names := func(from, to int) (all []string) {
		for i := from; i < to; i++ {
			all = append(all, fmt.Sprint("c", i))
		}
		return all
	}
	one := event.Query{Items: []event.Item{{Types: []string{"never"}}}}
	for name, appends := range map[string]func(tx pgx.Tx) error{
		"in one call": func(tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendAll(t.Context(), tx, oneEach(names(0, 1001)...)...)
			return err
		},
		"in four calls": func(tx pgx.Tx) error {
			for i := range 4 {
				if _, err := (journal.Journal{}).AppendAll(t.Context(), tx, oneEach(names(i*251, (i+1)*251)...)...); err != nil {
					return err
				}
			}
			return nil
		},
		"one at a time": func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT tidemark.append('c' || i, '[{"type": "noted"}]')
				FROM generate_series(1, 1001) AS i`)
			return err
		},
		"on conditions": func(tx pgx.Tx) error {
			for i := range 4 {
				var events []event.Event
				for _, b := range oneEach(names(i*251, (i+1)*251)...) {
					b.Events[0].CampaignID = b.CampaignID
					events = append(events, b.Events...)
				}
				if _, err := (journal.Journal{}).AppendIf(t.Context(), tx, events, journal.Condition{FailIfMatch: one}); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := pgx.BeginFunc(t.Context(), pgtest.New(t), appends)
			var pgErr *pgconn.PgError
			if !errors.As(err, &pgErr) || pgErr.Code != "TM011" ||
				!strings.Contains(pgErr.Message, "more than 1000 campaigns (campaigns_per_transaction of tidemark.limits)") ||
				!strings.Contains(pgErr.Hint, "another transaction") {
				t.Errorf("1,001 campaigns: %v", err)
			}
			if name != "one at a time" && !errors.Is(err, journal.ErrTooManyCampaigns) {
				t.Errorf("it is no ErrTooManyCampaigns: %v", err)
			}
		})
	}
	t.Run("the same ones again and again", func(t *testing.T) {
		t.Parallel()
		err := pgx.BeginFunc(t.Context(), pgtest.New(t), func(tx pgx.Tx) error {
			for range 2 {
				if _, err := (journal.Journal{}).AppendAll(t.Context(), tx, oneEach(names(5000, 5600)...)...); err != nil {
					return err
				}
			}
			_, err := tx.Exec(t.Context(), `SELECT tidemark.append('again', '[{"type": "noted"}]')
				FROM generate_series(1, 1200)`)
			return err
		})
		if err != nil {
			t.Errorf("601 campaigns in 2,400 appends: %v", err)
		}
	})
}

func TestManyCallsInOneTransactionTakeFewLocks(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for range 300 {
			if _, err := (journal.Journal{}).Append(t.Context(), tx, "c", journal.Any, noted(1)...); err != nil {
				return err
			}
		}
		if n := query[int](t, tx,
			"SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"); n != 3 {
			t.Errorf("it holds %d advisory locks, want 3: the campaign's, the type's and the floor", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	checkGapless(t, pool, 300)
}

func TestAppendsToDifferentCampaignsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (journal.Journal{}).Append(t.Context(), tx, "held", journal.Any, noted(1)...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for i := range 100 { // more than there are lock buckets
		if err := appendAll(ctx, pool, oneEach(fmt.Sprint("a", i), fmt.Sprint("b", i))...); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkGapless(t, pool, 200)
}

// TestWorkGoesWithItsEvents also shows that seqs have no gaps: writers of all kinds roll back
// halfway.
func TestWorkGoesWithItsEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "INSERT INTO tidemark.consumer_groups (name) VALUES ('g'), ('h')")
	rolledBack := errors.New("rolled back on purpose")
	const writers, calls = 8, 30
	var kept atomic.Int64
	var g errgroup.Group
	for w := range writers {
		g.Go(func() error {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for range calls {
				n := 1 + random.IntN(3)
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					campaign := fmt.Sprint("c", random.IntN(3))
					if _, err := (journal.Journal{}).Append(t.Context(), tx, campaign, journal.Any, noted(n)...); err != nil {
						return err
					}
					switch random.IntN(5) {
					case 0:
						return rolledBack
					case 1: // undoes a part of the transaction
						savepoint, err := tx.Begin(t.Context())
						if err != nil {
							return err
						}
						if _, err := (journal.Journal{}).Append(t.Context(), savepoint, campaign, journal.Any, noted(2)...); err != nil {
							return err
						}
						return savepoint.Rollback(t.Context())
					}
					return nil
				})
				switch {
				case err == nil:
					kept.Add(int64(n))
				case !errors.Is(err, rolledBack):
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	checkGapless(t, pool, int(kept.Load()))
}

func TestTheSameEventFromManyWritersIsStoredOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	e := event.Event{ID: uuid.New(), Type: "noted"}
	var g errgroup.Group
	var first atomic.Int64
	for range 16 {
		g.Go(func() error {
			places, err := appendTo(t.Context(), pool, "c", journal.None, e)
			if err != nil {
				return err
			}
			if !places[0].Duplicate {
				first.Add(1)
			}
			if places[0].Seq != 1 || places[0].ID != e.ID {
				return fmt.Errorf("got %+v", places[0])
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if first.Load() != 1 {
		t.Errorf("%d writers were told that they wrote it", first.Load())
	}
	checkGapless(t, pool, 1)
}
