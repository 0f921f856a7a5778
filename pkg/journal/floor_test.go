package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// floorIs checks the floor as seen from outside all transactions.
func floorIs(t *testing.T, pool *pgxpool.Pool, want int64, when string) {
	t.Helper()
	if floor, err := feed.Floor(t.Context(), pool); err != nil || floor != want {
		t.Errorf("%s: the floor is at %d, %v, want %d", when, floor, err, want)
	}
}

func begin(t *testing.T, db interface {
	Begin(context.Context) (pgx.Tx, error)
},
) pgx.Tx {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestTheFloorStaysBelowAppendsInFlight(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppend(t, pool, "a", noted(3)...)
	floorIs(t, pool, 3, "nothing in flight")

	early, late := begin(t, pool), begin(t, pool)
	for _, tx := range []pgx.Tx{early, late} {
		if _, err := (journal.Journal{}).Append(t.Context(), tx, fmt.Sprintf("%p", tx), journal.Any, noted(2)...); err != nil {
			t.Fatal(err)
		}
	}
	mustAppend(t, pool, "a", noted(1)...)
	floorIs(t, pool, 3, "two in flight")
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	floorIs(t, pool, 3, "the earlier one in flight")
	if err := early.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	floorIs(t, pool, 8, "nothing in flight any more")
}

func TestTheFloorIsHeldAgainAfterASavepointIsUndone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tx := begin(t, pool)
	for range 2 {
		savepoint := begin(t, tx)
		if _, err := (journal.Journal{}).Append(t.Context(), savepoint, "c", journal.Any, noted(1)...); err != nil {
			t.Fatal(err)
		}
		if err := savepoint.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	floorIs(t, pool, 2, "all undone")
	savepoint := begin(t, tx)
	if _, err := (journal.Journal{}).Append(t.Context(), savepoint, "c", journal.Any, noted(1)...); err != nil {
		t.Fatal(err)
	}
	if err := savepoint.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := (journal.Journal{}).Append(t.Context(), tx, "c", journal.Any, noted(1)...); err != nil {
		t.Fatal(err)
	}
	floorIs(t, pool, 2, "two events in flight")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	floorIs(t, pool, 4, "committed")
}

func TestStrangersDoNotHoldTheFloorBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppend(t, pool, "a", noted(1)...)
	stranger := begin(t, pool)
	for _, statement := range []string{
		"CREATE TABLE strangers (a integer)",
		"INSERT INTO strangers VALUES (1)",
		"SELECT pg_advisory_xact_lock(k), pg_advisory_xact_lock_shared(-k) FROM generate_series(0, 9) AS s (k)",
		// Locks with two 32-bit keys are of another kind.
		"SELECT pg_advisory_xact_lock(32001, 0), pg_advisory_xact_lock(32001 << 16, 0)",
	} {
		if _, err := stranger.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	mustAppend(t, pool, "a", noted(2)...)
	floorIs(t, pool, 3, "strangers hold locks and write")

	other := pgtest.New(t) // a database on the same server
	elsewhere := begin(t, other)
	if _, err := (journal.Journal{}).Append(t.Context(), elsewhere, "a", journal.Any, noted(1)...); err != nil {
		t.Fatal(err)
	}
	floorIs(t, pool, 3, "an append in another database")
	if err := errors.Join(stranger.Rollback(t.Context()), elsewhere.Rollback(t.Context())); err != nil {
		t.Fatal(err)
	}
}

const (
	floorTime    = 5 * time.Second
	floorWriters = 24
	floorReaders = 3
)

// TestPositionReadersMissNothingAndRepeatNothing runs readers that follow the floor while writers
// append and roll back. Meanwhile backends are terminated, one stranger keeps a transaction open,
// and others hold advisory locks. The readers must see exactly the committed events.
func TestPositionReadersMissNothingAndRepeatNothing(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(pgtest.UTF8(pgtest.URL(t)))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = floorWriters
	cfg.ConnConfig.RuntimeParams["application_name"] = "writer"
	writers, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer writers.Close()
	cfg = cfg.Copy()
	cfg.ConnConfig.RuntimeParams["application_name"] = "reader"
	readers, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer readers.Close()

	stranger := begin(t, readers)
	for _, statement := range []string{
		"CREATE TABLE strangers (a integer)", "INSERT INTO strangers VALUES (1)",
		"SELECT pg_advisory_xact_lock(k) FROM generate_series(0, 9) AS s (k)",
	} {
		if _, err := stranger.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}

	writing, stop := context.WithTimeout(t.Context(), floorTime)
	defer stop()
	var w, r errgroup.Group
	for i := range floorWriters {
		w.Go(func() error { return writeUntil(writing, writers, i) })
	}
	w.Go(func() error { return terminateUntil(writing, readers) })
	written := make(chan struct{})
	seen := make([][]int64, floorReaders)
	for i := range seen {
		r.Go(func() (err error) {
			seen[i], err = follow(t.Context(), readers, i, written)
			return err
		})
	}
	err = w.Wait()
	writers.Close()
	eventually(t, "no writer's backend is left", func() bool {
		return query[int](t, readers,
			"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'writer'") == 0
	})
	close(written)
	if err = errors.Join(err, r.Wait(), stranger.Rollback(t.Context())); err != nil {
		t.Fatal(err)
	}

	rows, err := readers.Query(t.Context(), "SELECT position FROM tidemark.journal ORDER BY position")
	if err != nil {
		t.Fatal(err)
	}
	committed, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(committed) == 0 {
		t.Fatalf("%d events were committed, %v", len(committed), err)
	}
	for i, positions := range seen {
		if !slices.Equal(positions, committed) {
			t.Errorf("reader %d saw %d events, in order: %t; %d were committed", i, len(positions), slices.IsSorted(positions),
				len(committed))
		}
	}
	t.Logf("%d events, %d positions", len(committed),
		query[int64](t, readers, "SELECT last_value FROM tidemark.journal_position"))
}

// writeUntil appends, and rolls back now and then. Its backend can be terminated at any time.
func writeUntil(ctx context.Context, pool *pgxpool.Pool, writer int) error {
	random := rand.New(rand.NewPCG(uint64(writer), 7))
	rolledBack := errors.New("rolled back on purpose")
	var done int
	for ctx.Err() == nil {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			for range 1 + random.IntN(2) {
				campaign := fmt.Sprintf("w%d-%d", writer, random.IntN(3))
				if random.IntN(8) == 0 {
					campaign = "of all"
				}
				events := noted(1 + random.IntN(3))
				if random.IntN(20) == 0 {
					events = noted(200) // long enough that readers look in the middle of it
				}
				if _, err := (journal.Journal{}).Append(ctx, tx, campaign, journal.Any, events...); err != nil {
					return err
				}
			}
			switch random.IntN(20) {
			case 0, 1:
				return rolledBack
			case 2: // a slow one that others overtake
				_, err := tx.Exec(ctx, "SELECT pg_sleep($1)", random.Float64()/50)
				return err
			}
			return nil
		})
		if err == nil {
			done++
		}
		// Often only a few write at once. With many writers, another writer's floor can hide a
		// missing one.
		if random.IntN(4) > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(random.IntN(100)) * time.Millisecond):
			}
		}
	}
	if done > 0 {
		return nil
	}
	// This append runs after the disturbances: a busy machine, terminated backends.
	return pgx.BeginFunc(context.WithoutCancel(ctx), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(context.WithoutCancel(ctx), tx, fmt.Sprintf("w%d", writer), journal.Any, noted(1)...)
		return err
	})
}

// terminateUntil keeps terminating the backend of a random writer that is inside a transaction.
func terminateUntil(ctx context.Context, pool *pgxpool.Pool) error {
	for ctx.Err() == nil {
		_, err := pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'writer' AND xact_start IS NOT NULL ORDER BY random()
				LIMIT 1`)
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// follow collects positions until writing has ended and it has read everything. Reader 0 reads with
// ReadAll, the others read pages.
func follow(ctx context.Context, pool *pgxpool.Pool, reader int, written <-chan struct{}) (seen []int64, err error) {
	var last int64
	take := func(e event.Event) {
		seen = append(seen, e.Position)
		last = e.Position
	}
	for over := false; !over; {
		select {
		case <-written:
			over = true // this round is the last
		default:
		}
		if reader == 0 {
			for e, err := range journal.ReadAll(ctx, pool, last) {
				if err != nil {
					return nil, err
				}
				take(e)
			}
			continue
		}
		floor, err := feed.Floor(ctx, pool)
		if err != nil {
			return nil, err
		}
		for {
			page, _, err := feed.ReadWindow(ctx, pool, event.Window{
				After: last, Floor: floor, Events: 10 * reader, Bytes: 1 << 30, Small: true,
			})
			if err != nil {
				return nil, err
			}
			for _, e := range page {
				take(e)
			}
			if len(page) == 0 {
				break
			}
		}
	}
	return seen, nil
}
