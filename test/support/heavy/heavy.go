// Package heavy makes events that take long to read, however fast the machine is, as half a gigabyte of text does
// on a slow server. Only tests import it.
package heavy

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Event is an event that takes long to read.
type Event struct {
	pool *pgxpool.Pool
}

// Make makes each read of the payload of an event take so long from now on, in every session of the database. The
// event may be appended later. Readers take the journal for another one than before.
func Make(t testing.TB, pool *pgxpool.Pool, campaign string, seq int64, takes time.Duration) Event {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), fmt.Sprintf(makeHeavy, campaign, seq, takes.Seconds()))
		return err
	}); err != nil {
		t.Fatalf("make an event that takes %v to read: %v", takes, err)
	}
	pool.Reset() // plans of statements prepared before read the table
	return Event{pool}
}

// Block makes each read of the payload of an event take until Release is called.
func Block(t testing.TB, pool *pgxpool.Pool, campaign string, seq int64) Event {
	t.Helper()
	return Make(t, pool, campaign, seq, time.Hour)
}

// Release ends the reads that are under way, and later ones at once.
func (e Event) Release(t testing.TB) {
	t.Helper()
	if _, err := e.pool.Exec(t.Context(), release); err != nil {
		t.Fatal(err)
	}
}

// Reads returns how many reads of the event have begun.
func (e Event) Reads(t testing.TB) (n int) {
	t.Helper()
	if err := e.pool.QueryRow(t.Context(), readsBegun).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Limit sets the statement_timeout of all later sessions of the database.
func Limit(t testing.TB, pool *pgxpool.Pool, limit time.Duration) {
	t.Helper()
	var sql string
	err := pool.QueryRow(t.Context(), formatLimit, limit.Milliseconds()).Scan(&sql)
	if err == nil {
		_, err = pool.Exec(t.Context(), sql)
	}
	if err != nil {
		t.Fatal(err)
	}
	pool.Reset()
}
