package dcb_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// snapshot makes the transaction take its snapshot.
func snapshot(t *testing.T, tx pgx.Tx) {
	t.Helper()
	var n int
	if err := tx.QueryRow(t.Context(), "SELECT 1").Scan(&n); err != nil {
		t.Fatal(err)
	}
}

// A condition on events that the snapshot cannot show is an error, never an empty result.
func TestASnapshotThatMissesACommitDecidesNothing(t *testing.T) {
	t.Parallel()
	pool := open(t, 6)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for name, query := range map[string]event.Query{
			"tag": event.Tagged([]string{"x"}), "tag and type": event.Tagged([]string{"x"}, "opened"),
			"type": event.Types("opened"), "everything": {},
		} {
			for _, known := range []bool{true, false} { // the condition knows all earlier events
				mark := fmt.Sprintf("%s, %s, %v", level, name, known)
				if !known { // otherwise events of earlier rounds are a visible conflict
					query = event.Tagged([]string{mark})
				}
				floor, err := feed.Floor(t.Context(), pool)
				if err != nil {
					t.Fatal(err)
				}
				condition := journal.Condition{FailIfMatch: query}
				if known {
					condition.After = floor
				}
				tx := begin(t, pool, level)
				snapshot(t, tx)
				written(t, pool, newEvent("a", "opened", "x", mark))
				_, err = journal.Journal{}.AppendIf(t.Context(), tx, []event.Event{newEvent("b", "decided", "z")}, condition)
				if !errors.Is(err, journal.ErrStaleSnapshot) {
					t.Errorf("%s, %s, known %v: got %v", level, name, known, err)
				}
				_ = tx.Rollback(t.Context())
			}
		}
	}
}

// A snapshot that misses nothing decides, despite other transactions on the server and earlier
// rollbacks.
func TestASnapshotThatMissesNothingDecides(t *testing.T) {
	t.Parallel()
	pool := open(t, 6)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		gap := begin(t, pool, pgx.ReadCommitted)
		write(t, gap, newEvent("gap", "opened", "x"))
		if err := gap.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		written(t, pool, newEvent("a", "noted", "y"))
		_, condition, err := journal.Decide(t.Context(), pool, event.Tagged([]string{"x"}), positions)
		if err != nil {
			t.Fatal(err)
		}
		tx := begin(t, pool, level)
		snapshot(t, tx)
		// A commit of another session.
		if _, err := pool.Exec(t.Context(), "CREATE TABLE foreign_"+string(level[:6])+" (n int)"); err != nil {
			t.Fatal(err)
		}
		if _, err := (journal.Journal{}).AppendIf(t.Context(), tx, []event.Event{newEvent("b", "decided", "z")}, condition); err != nil {
			t.Errorf("%s: %v", level, err)
		}
		commit(t, tx)
		// Without a position the check goes by transactions. Other transactions on this server may
		// commit meanwhile, so it may take several attempts.
		err = journal.Retry{Attempts: 200, Most: 50 * time.Millisecond}.Do(t.Context(), func(ctx context.Context) error {
			return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				_, err := journal.Journal{}.AppendIf(ctx, tx, []event.Event{newEvent("b", "decided", "z")},
					journal.Condition{FailIfMatch: event.Tagged([]string{"never"})})
				return err
			})
		})
		if err != nil {
			t.Errorf("%s, without a position: %v", level, err)
		}
	}
}

// When many take the same name at once, under any isolation level, one gets it.
func TestOneOfManyGetsTheName(t *testing.T) {
	t.Parallel()
	pool := open(t, 12)
	levels := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	for range 10 {
		name := "name=" + time.Now().Format(time.RFC3339Nano)
		var got atomic.Int64
		var g errgroup.Group
		for n := range 12 {
			g.Go(func() error {
				err := journal.Retry{Attempts: 200, Most: 50 * time.Millisecond}.Do(t.Context(), func(ctx context.Context) error {
					return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: levels[n%3]}, func(tx pgx.Tx) error {
						_, err := journal.Journal{}.AppendIf(ctx, tx, []event.Event{newEvent(string(rune('a'+n)), "taken", name)},
							journal.Condition{FailIfMatch: event.Tagged([]string{name}, "taken")})
						if errors.Is(err, journal.ErrConditionFailed) {
							return errTaken
						}
						return err
					})
				})
				if err == nil {
					got.Add(1)
				} else if !errors.Is(err, errTaken) {
					return err
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if got.Load() != 1 {
			t.Errorf("%d got the name", got.Load())
		}
	}
}
