package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tidemark-go/tidemark/pkg/inbox"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

var errNo = errors.New("no")

func exec(t *testing.T, pool *pgxpool.Pool, statement string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, pool *pgxpool.Pool, table string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// mark marks an event in a transaction of its own. The transaction ends with the given error.
func mark(t *testing.T, pool *pgxpool.Pool, consumer string, id uuid.UUID, end error) (first bool) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		if first, err = inbox.CheckAndMark(t.Context(), tx, consumer, "oak", id); err != nil {
			return err
		}
		return end
	})
	if !errors.Is(err, end) {
		t.Fatal(err)
	}
	return first
}

func TestAnEventIsNewOnceForEachConsumer(t *testing.T) {
	t.Parallel()
	pool, id := pgtest.New(t), uuid.New()
	if !mark(t, pool, "a", id, errNo) || !mark(t, pool, "a", id, nil) {
		t.Error("what was rolled back is remembered")
	}
	if mark(t, pool, "a", id, nil) {
		t.Error("what was committed is not remembered")
	}
	if !mark(t, pool, "b", id, nil) || !mark(t, pool, "a", uuid.New(), nil) {
		t.Error("it is remembered for another consumer, or another event")
	}
}

func TestAMarkOverDatabaseSQLIsTheSame(t *testing.T) {
	t.Parallel()
	pool, id := pgtest.New(t), uuid.New()
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	for i, want := range []bool{true, true, false} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		first, err := inbox.CheckAndMark(t.Context(), journal.SQL(tx), "a", "oak", id)
		if err != nil || first != want {
			t.Errorf("time %d: first is %t, %v", i, first, err)
		}
		end := tx.Commit
		if i == 0 {
			end = tx.Rollback
		}
		if err := end(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			t.Error(err)
		}
	}
	if mark(t, pool, "a", id, nil) {
		t.Error("over pgx it is new again")
	}
}

func TestOfDeliveriesAtOnceOneHasEffects(t *testing.T) {
	t.Parallel()
	pool, id := pgtest.New(t), uuid.New()
	exec(t, pool, "CREATE TABLE effects (n int)")
	var attempts atomic.Int64
	var deliveries sync.WaitGroup
	for range 8 {
		deliveries.Go(func() {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				first, err := inbox.CheckAndMark(t.Context(), tx, "a", "oak", id)
				if err != nil || !first {
					return err
				}
				if _, err := tx.Exec(t.Context(), "INSERT INTO effects VALUES (1)"); err != nil {
					return err
				}
				if attempts.Add(1) <= 2 { // the first two fail, so another caller must succeed
					return errNo
				}
				return nil
			})
			if err != nil && !errors.Is(err, errNo) {
				t.Error(err)
			}
		})
	}
	deliveries.Wait()
	if n := count(t, pool, "effects"); n != 1 || attempts.Load() != 3 {
		t.Errorf("there are %d effects, after %d attempts", n, attempts.Load())
	}
}

func TestAMarkThatHasExpiredCountsAsAbsentAndIsPruned(t *testing.T) {
	t.Parallel()
	pool, id := pgtest.New(t), uuid.New()
	mark(t, pool, "a", id, nil)
	var ttl time.Duration
	if err := pool.QueryRow(t.Context(), "SELECT expires_at - now() FROM tidemark.inbox").Scan(&ttl); err != nil ||
		ttl > inbox.DefaultTTL || ttl < inbox.DefaultTTL-time.Hour {
		t.Errorf("it lasts %s, %v", ttl, err)
	}
	exec(t, pool, "UPDATE tidemark.inbox SET expires_at = now() - interval '1 second'")
	if !mark(t, pool, "a", id, nil) || mark(t, pool, "a", id, nil) {
		t.Error("it is not new, or not marked anew")
	}
	exec(t, pool,
		"INSERT INTO tidemark.inbox SELECT 'a', 'oak', gen_random_uuid(), now() - i * interval '1 second' FROM "+
			"generate_series(1, 25) i")
	for i, want := range []int64{10, 10, 5, 0} {
		if n, err := inbox.Prune(t.Context(), pool, 10); err != nil || n != want {
			t.Errorf("prune %d: %d, %v, want %d", i, n, err, want)
		}
	}
	if n := count(t, pool, "tidemark.inbox"); n != 1 {
		t.Errorf("%d marks are left, want that of the event", n)
	}
}

func TestAMarkLastsAsLongAsItIsTold(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := inbox.CheckAndMark(t.Context(), tx, "a", "oak", uuid.New(), inbox.TTL(time.Hour))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = inbox.CheckAndMark(t.Context(), journal.SQL(tx), "a", "oak", uuid.New(), inbox.TTL(time.Hour)); err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool,
		"tidemark.inbox WHERE expires_at BETWEEN now() + interval '1 minute' AND now() + interval '1 hour'"); n != 2 {
		t.Errorf("%d of 2 marks last an hour", n)
	}
}

// A consumer that renews an expired mark does not block the pruning of other marks.
func TestPruningPassesByWhatSomebodyIsMarking(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := uuid.New()
	mark(t, pool, "a", id, nil)
	exec(t, pool,
		"INSERT INTO tidemark.inbox SELECT 'a', 'oak', gen_random_uuid(), now() FROM generate_series(1, 5); UPDATE "+
			"tidemark.inbox SET expires_at = now() - interval '1 hour'")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if first, err := inbox.CheckAndMark(t.Context(), tx, "a", "oak", id); err != nil || !first {
			t.Errorf("first is %t, %v", first, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if n, err := inbox.Prune(ctx, pool, 10); err != nil || n != 5 {
			t.Errorf("%d marks are pruned, %v, want 5", n, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if mark(t, pool, "a", id, nil) {
		t.Error("what was just marked is gone")
	}
}

func TestThePrunerPrunesUntilItIsTold(t *testing.T) {
	t.Parallel()
	for name, interval := range map[string]time.Duration{
		"all there is in one look": time.Hour,
		"look after look":          5 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			exec(t, pool, "INSERT INTO tidemark.inbox SELECT 'a', 'oak', gen_random_uuid(), now() FROM generate_series(1, 25) i")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- inbox.Pruner{DB: pool, Interval: interval, Batch: 10}.Run(ctx) }()
			empty := func() {
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for count(t, pool, "tidemark.inbox") > 0 {
					if <-tick.C; ctx.Err() != nil {
						t.Fatal("it has not pruned")
					}
				}
			}
			empty()
			if interval < time.Minute {
				exec(t, pool, "INSERT INTO tidemark.inbox SELECT 'b', 'oak', gen_random_uuid(), now()")
				empty()
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	if err := (inbox.Pruner{}).Run(t.Context()); err == nil {
		t.Error("it runs without a database")
	}
}

func TestPruningWalksOnlyWhatHasExpired(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool,
		"INSERT INTO tidemark.inbox SELECT 'a', 'oak', gen_random_uuid(), now() + i * interval '1 minute' FROM "+
			"generate_series(-50, 20000) i; ANALYZE tidemark.inbox")
	rows, err := pool.Query(t.Context(),
		"EXPLAIN SELECT ctid FROM tidemark.inbox WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT 10 FOR "+
			"UPDATE SKIP LOCKED")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if plan := strings.Join(lines, "\n"); !strings.Contains(plan, "inbox_expires_idx") || strings.Contains(plan, "Sort") {
		t.Errorf("the plan is\n%s", plan)
	}
}

func TestBadMarksAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		consumer, campaign string
		id                 uuid.UUID
		ttl                time.Duration
		want               string
	}{
		{"a", "", uuid.New(), time.Hour, "has no campaign"},
		{"a", "oak\x00", uuid.New(), time.Hour, "zero byte"},
		{"a", "oak\xff", uuid.New(), time.Hour, "not UTF-8"},
		{"", "oak", uuid.New(), time.Hour, "has no name"},
		{strings.Repeat("a", 201), "oak", uuid.New(), time.Hour, "has 201 bytes, it may have 200"},
		{"a\x00", "oak", uuid.New(), time.Hour, "zero byte"},
		{"a\xff", "oak", uuid.New(), time.Hour, "not UTF-8"},
		{"a", "oak", uuid.Nil, time.Hour, "has no id"},
		{"a", "oak", uuid.New(), -1, "TTL of marks is -1ns, it must be 1s to"},
		{"a", "oak", uuid.New(), 1 << 62, "TTL of marks is"},
	} {
		_, err := inbox.CheckAndMark(t.Context(), nil, c.consumer, c.campaign, c.id, inbox.TTL(c.ttl))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
