package status_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// ofLocks returns the problems with blocking sessions and prepared transactions.
func ofLocks(s *status.Status) (found []status.Problem) {
	for _, p := range s.Problems() {
		if strings.Contains(p.What, "advisory locks") || p.Where == "journal" ||
			strings.Contains(p.What, "oldest transaction") {
			found = append(found, p)
		}
	}
	return found
}

func TestASessionThatHoldsLocksOfOursIsNamed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	read := func() []status.Problem {
		s, err := (&status.Reader{Pool: pool}).Read(t.Context())
		if err != nil || len(s.Unread) > 0 {
			t.Fatal(s, err)
		}
		return ofLocks(s)
	}
	const lock = "SET application_name = 'culprit'; SELECT pg_advisory_lock(tidemark.lock_key(32002, 7))"
	if _, err := conn.Exec(t.Context(), lock, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	pid := conn.Conn().PgConn().PID()
	found := read()
	if len(found) != 1 {
		t.Fatalf("found is %+v", found)
	}
	for _, want := range []string{fmt.Sprintf("process %d (%s, culprit)", pid, conn.Conn().Config().User)} {
		if !strings.Contains(found[0].What, want) {
			t.Errorf("%q does not say %q", found[0].What, want)
		}
	}
	for _, want := range []string{fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid), "revokes", "migrate roles --advisory-locks"} {
		if !strings.Contains(found[0].Do, want) {
			t.Errorf("%q does not say %q", found[0].Do, want)
		}
	}
	if found[0].Since == nil || time.Since(*found[0].Since) > time.Minute {
		t.Errorf("since %v", found[0].Since)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_unlock_all()"); err != nil {
		t.Fatal(err)
	}
	if found := read(); len(found) > 0 {
		t.Errorf("after it has let go: %+v", found)
	}
}

// A prepared append has no session. The problem shows the name that ends it.
func TestAForgottenPreparedAppendIsNamed(t *testing.T) {
	t.Parallel()
	url := pgtest.Server(t).URL()
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), pgtest.UTF8(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range []string{"BEGIN", `SELECT FROM tidemark.append('c',
		'[{"type": "noted"}]')`, `PREPARE TRANSACTION 'it''s forgotten'`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	const name, remedy = `prepared transaction 'it''s forgotten'`, `ROLLBACK PREPARED 'it''s forgotten'`
	var holders []status.Holder
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		holders, err = status.Holders(t.Context(), tx, 0)
		return err
	})
	if err != nil || len(holders) != 1 || !strings.HasPrefix(holders[0].String(), name) || holders[0].Remedy != remedy ||
		time.Since(holders[0].Since) > time.Minute || holders[0].User == "" {
		t.Errorf("it is %+v, %v", holders, err)
	}
	s, err := (&status.Reader{Pool: pool}).Read(t.Context())
	if err != nil || len(s.Unread) > 0 {
		t.Fatal(s, err)
	}
	if found := ofLocks(s); len(found) > 0 {
		t.Errorf("it has just been prepared, and is named: %+v", found)
	}
	// The append stays prepared for an hour.
	s.Journal.FloorAge, s.Postgres.OldestTransaction, s.Postgres.Holders = time.Hour, time.Hour, holders
	found := ofLocks(s)
	if len(found) != 2 { // one for the journal, one for dead rows that vacuum must keep
		t.Errorf("it is named %d times: %+v", len(found), found)
	}
	for _, p := range found {
		if !strings.Contains(p.What, name) || !strings.Contains(p.Do, remedy) {
			t.Errorf("%q, %q do not say %q and %q", p.What, p.Do, name, remedy)
		}
	}
	// Without the journal, the problem is the other advisory lock.
	s.Journal.FloorAge = 0
	if found := ofLocks(s); len(found) != 2 || !strings.Contains(found[0].What+found[1].What, name+" (") {
		t.Errorf("without the journal's: %+v", found)
	}
	if _, err := conn.Exec(t.Context(), remedy); err != nil {
		t.Fatal(err)
	}
}

// TestAWorkerThatHasJustCommittedHoldsNoLocks looks at sessions that append all the time. A look reads the locks
// before it reads what sessions do.
func TestAWorkerThatHasJustCommittedHoldsNoLocks(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ctx, stop := context.WithCancel(t.Context())
	var appending sync.WaitGroup
	for n := range 3 {
		appending.Go(func() {
			for ctx.Err() == nil {
				_, err := pool.Exec(t.Context(), `SELECT FROM tidemark.append($1, '[{"type": "noted"}]')`, fmt.Sprint("oak", n))
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer appending.Wait()
	defer stop()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for range 400 {
			if found, err := status.Holders(t.Context(), tx, time.Minute); err != nil || len(found) > 0 {
				return errors.Join(err, fmt.Errorf("found %v", found))
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
