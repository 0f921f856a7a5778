package journal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// many returns n tags. Together they fall into nearly all lock buckets.
func many(n int) (tags []string) {
	for i := range n {
		tags = append(tags, fmt.Sprint("tag ", i))
	}
	return tags
}

// imported returns events with 200 different tags, more than a transaction locks one by one.
func imported(campaign string) (events []event.Event) {
	for _, tag := range many(200) {
		events = append(events, tagged(campaign, "opened", tag))
	}
	return events
}

// contention is a pair of transactions: holds stays open, and wants waits for it.
type contention struct {
	holds, wants func(context.Context, pgx.Tx) error
}

func contentions() map[string]contention {
	appends := func(events ...event.Event) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendAll(ctx, tx, journal.Batch{
				CampaignID: events[0].CampaignID, Expect: journal.Any,
				Events: events,
			})
			return err
		}
	}
	decides := func(query event.Query, campaign string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendIf(ctx, tx, []event.Event{tagged(campaign, "decided")},
				journal.Condition{FailIfMatch: query})
			return err
		}
	}
	unused := event.Tagged([]string{"unused"}, "never")
	return map[string]contention{
		"a condition on a tag": {
			appends(tagged("held", "opened", "x")),
			decides(event.Tagged([]string{"x"}, "opened"), "b"),
		},
		"a condition on a type": {appends(tagged("held", "opened")), decides(event.Types("opened"), "b")},
		"a condition on all":    {appends(tagged("held", "opened")), decides(event.Query{}, "b")},
		"a condition of many terms": {
			appends(tagged("held", "opened")),
			decides(event.Tagged([]string{"x"}, many(70)...), "b"),
		},
		"a condition, for its campaign": {
			appends(tagged("held", "opened")),
			decides(event.Tagged([]string{"x"}, "opened"), "held"),
		},
		"an import": {
			decides(event.Tagged([]string{"tag 1"}, "never"), "held"),
			appends(imported("b")...),
		},
		"an import, for its campaign": {appends(tagged("held", "opened")), appends(imported("held")...)},
		"an import, in one call": {
			decides(event.Tagged([]string{"tag 1"}, "never"), "held"),
			func(ctx context.Context, tx pgx.Tx) error {
				_, err := journal.Journal{}.Append(ctx, tx, "b", journal.Any, imported("b")...)
				return err
			},
		},
		"a decision of an import's tags": {appends(tagged("held", "opened")), func(ctx context.Context, tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendIf(ctx, tx, imported("held"), journal.Condition{FailIfMatch: unused})
			return err
		}},
	}
}

// A transaction that waits for an exclusive lock waits outside the queue, so others pass it. It
// goes on when the open transaction ends.
func TestWhatWaitsForAnOpenTransactionHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	for name, c := range contentions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			open, waiting := contend(t, pool, c)
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				_, err := appendIf(ctx, pool, journal.Condition{FailIfMatch: event.Tagged([]string{"x"}, "closed")},
					tagged("c", "opened", "x", "tag 2"))
				cancel()
				if err != nil {
					t.Fatalf("a third append: %v", err)
				}
			}
			if err := open.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-waiting; err != nil && !errors.Is(err, journal.ErrConditionFailed) {
				t.Errorf("after the transaction was over: %v", err)
			}
		})
	}
}

// The wait is bounded. The error says that the append can be retried, and what to look at.
func TestAnExclusiveLockIsWaitedForOnlySoLong(t *testing.T) {
	t.Parallel()
	for name, c := range contentions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			setting, bound := "SET LOCAL lock_timeout = '1s'", "for more than 1s"
			if name == "an import" {
				setting, bound = "SELECT 1", "for more than 10s" // the default
			}
			open, waiting := contend(t, pool, c, setting)
			if err := <-waiting; sqlState(err) != "55P03" || !strings.Contains(err.Error(), bound) {
				t.Errorf("while the transaction was open: %v", err)
			}
			if err := open.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAPlainAppendWaitsForConflictsAlone appends to campaign b beside an open transaction.
func TestAPlainAppendWaitsForConflictsAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, campaign := range []string{"b", "c"} {
		if _, err := appendIf(t.Context(), pool, always(), tagged(campaign, "begun")); err != nil {
			t.Fatal(err)
		}
	}
	var same, other string
	var locks int
	if err := pool.QueryRow(t.Context(), `SELECT min(t) FILTER (WHERE k = tidemark.type_key('opened')),
			min(t) FILTER (WHERE k <> tidemark.type_key('opened')), count(DISTINCT k)
		FROM generate_series(1, 10000) n, LATERAL (SELECT 't' || n, tidemark.type_key('t' || n)) x (t, k)`).
		Scan(&same, &other, &locks); err != nil || locks != 64 {
		t.Fatalf("types have %d locks, %v", locks, err)
	}
	appends := func(events ...event.Event) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(ctx, tx, events[0].CampaignID, journal.Any, events...)
			return err
		}
	}
	decides := func(query event.Query) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendIf(ctx, tx, []event.Event{tagged("held", "decided")}, journal.Condition{
				FailIfMatch: query,
			})
			return err
		}
	}
	erases := func(campaign string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT tidemark.erase(e.id, e.generation, '`+campaign+`', NULL, 10)
				FROM tidemark.begin_erasure('`+campaign+`', NULL, NULL, NULL, 'anna', 'a test', true) e`)
			return err
		}
	}
	for name, c := range map[string]struct {
		holds func(context.Context, pgx.Tx) error
		waits bool
	}{
		"an append to the campaign":            {appends(tagged("b", "closed")), true},
		"an append elsewhere, with its tags":   {appends(tagged("held", "opened", "x")), false},
		"a condition on its tag":               {decides(event.Tagged([]string{"x"}, "opened")), true},
		"a condition on its tag, another type": {decides(event.Tagged([]string{"x"}, "closed")), false},
		"a condition on another tag":           {decides(event.Tagged([]string{"y"}, "opened")), false},
		"a condition on its type":              {decides(event.Types("opened")), true},
		"a condition on a type with its lock":  {decides(event.Types(same)), true},
		"a condition on a type with another":   {decides(event.Types(other)), false},
		"a condition of many terms":            {decides(event.Tagged([]string{"y"}, many(70)...)), true},
		"an erasure of the campaign":           {erases("b"), true},
		"an erasure of another one":            {erases("c"), false},
		"many tags, of which none is its":      {appends(imported("held")...), false},
		"a scheduled append to the campaign": {func(ctx context.Context, tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendAt(ctx, tx, "b", time.Now().Add(time.Hour), tagged("b", "opened"))
			return err
		}, false},
	} {
		open, err := pool.Begin(t.Context())
		if err == nil {
			err = c.holds(t.Context(), open)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_ = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SET LOCAL lock_timeout = '50ms'`)
			if err == nil {
				err = appends(tagged("b", "opened", "x"))(t.Context(), tx)
			}
			if waits := sqlState(err) == "55P03"; waits != c.waits || !waits && err != nil {
				t.Errorf("beside %s it waits: %t, %v", name, waits, err)
			}
			return errors.New("rolled back")
		})
		if err := open.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// contend begins both transactions. It returns the open one and the result of the other, which
// waits by then.
func contend(t *testing.T, pool *pgxpool.Pool, c contention, settings ...string) (open pgx.Tx, waiting <-chan error) {
	t.Helper()
	open, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = open.Rollback(context.WithoutCancel(t.Context())) })
	if err := c.holds(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			for _, setting := range settings {
				if _, err := tx.Exec(t.Context(), setting); err != nil {
					return err
				}
			}
			return c.wants(t.Context(), tx)
		})
	}()
	eventually(t, "the other waits", func() bool { return waitingForLock(t, pool) == 1 })
	return open, done
}
