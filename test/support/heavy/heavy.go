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

// Make makes each read of the payload of an event take so long from now on, in every session of the database.
// Nothing can be appended afterwards: the journal is a view.
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

// Reads returns how many reads of the event have begun.
func (e Event) Reads(t testing.TB) (n int) {
	t.Helper()
	if err := e.pool.QueryRow(t.Context(), readsBegun).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
