package dcb_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestMain runs the tests, or the client in a child process of a test.
func TestMain(m *testing.M) {
	url := os.Getenv(clientEnv)
	if url == "" {
		pgtest.Main(m)
		return
	}
	if err := client(url, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// patience limits how long to wait for a condition.
const patience = 3 * time.Minute

// errTaken is the result of taking a name that is taken.
var errTaken = errors.New("the name is taken")

// open returns a pool with the given number of connections on the test's own database.
func open(t *testing.T, connections int32) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(pgtest.UTF8(pgtest.URL(t)))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = connections
	cfg.ConnConfig.RuntimeParams["deadlock_timeout"] = "20ms" // the tests provoke deadlocks
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func newEvent(campaign, eventType string, tags ...string) event.Event {
	return event.Event{CampaignID: campaign, Type: eventType, Tags: tags}
}

// begin opens a transaction, which is rolled back at the end of the test if it is still open.
func begin(t *testing.T, pool *pgxpool.Pool, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// write appends without a condition.
func write(t *testing.T, tx pgx.Tx, events ...event.Event) []journal.Appended {
	t.Helper()
	var places []journal.Appended
	for _, e := range events {
		place, err := journal.Journal{}.Append(t.Context(), tx, e.CampaignID, journal.Any, e)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, place...)
	}
	return places
}

// written appends without a condition and commits.
func written(t *testing.T, pool *pgxpool.Pool, events ...event.Event) []journal.Appended {
	t.Helper()
	tx := begin(t, pool, pgx.ReadCommitted)
	places := write(t, tx, events...)
	commit(t, tx)
	return places
}

// appendIf appends in a transaction of its own.
func appendIf(ctx context.Context, pool *pgxpool.Pool, condition journal.Condition, events ...event.Event) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.AppendIf(ctx, tx, events, condition)
		return err
	})
}

// blocked starts an append on a condition and returns once the append waits for a lock. result
// returns its outcome.
func blocked(
	t *testing.T, pool *pgxpool.Pool, condition journal.Condition, events ...event.Event,
) (result func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- appendIf(t.Context(), pool, condition, events...) }()
	const waiting = `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	for deadline := time.Now().Add(patience); ; {
		var n int
		if err := pool.QueryRow(t.Context(), waiting).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			return func() error { return <-done }
		}
		select {
		case err := <-done:
			t.Fatalf("it waits for nobody and answers %v", err)
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not come to wait")
		}
	}
}

// positions folds events into a list of their positions.
func positions(seen *[]int64, e event.Event) error {
	*seen = append(*seen, e.Position)
	return nil
}
