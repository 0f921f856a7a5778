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

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestMain runs the tests, or a client in a process that one of them made.
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

// patience is how long a condition that must come true may take.
const patience = 3 * time.Minute

// errTaken is what an attempt to take a name ends with when another has it.
var errTaken = errors.New("the name is taken")

// open answers a pool of so many connections on a database of the test's own.
func open(t *testing.T, connections int32) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = connections
	cfg.ConnConfig.RuntimeParams["deadlock_timeout"] = "20ms" // deadlocks are sought here, and waiting for them is not
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func event(campaign, eventType string, tags ...string) journal.Event {
	return journal.Event{CampaignID: campaign, Type: eventType, Tags: tags}
}

// begin opens a transaction that is rolled back when the test ends, if it is still open.
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
func write(t *testing.T, tx pgx.Tx, events ...journal.Event) []journal.Appended {
	t.Helper()
	var places []journal.Appended
	for _, e := range events {
		place, err := journal.Append(t.Context(), tx, e.CampaignID, journal.Any, e)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, place...)
	}
	return places
}

// written appends without a condition and commits.
func written(t *testing.T, pool *pgxpool.Pool, events ...journal.Event) []journal.Appended {
	t.Helper()
	tx := begin(t, pool, pgx.ReadCommitted)
	places := write(t, tx, events...)
	commit(t, tx)
	return places
}

// appendIf appends in a transaction of its own.
func appendIf(ctx context.Context, pool *pgxpool.Pool, condition journal.Condition, events ...journal.Event) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := journal.AppendIf(ctx, tx, events, condition)
		return err
	})
}

// blocked starts an append on a condition, returns once it waits for a lock, and answers how to get what became of it.
func blocked(
	t *testing.T, pool *pgxpool.Pool, condition journal.Condition, events ...journal.Event,
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

// positions folds events into the positions they have.
func positions(seen *[]int64, e journal.Event) error {
	*seen = append(*seen, e.Position)
	return nil
}
