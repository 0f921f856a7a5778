package projector

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// lockWait is how long a pair waits that needs what another session has locked. A lock that stays is looked for less often: see queryDefer.
	lockWait = time.Second

	// lockLook is after how long a statement that has not returned is asked what it waits for, and how often.
	lockLook = 100 * time.Millisecond
)

const (
	// queryPatienceBegins and queryPatience bound how long the statements of a group that is applied
	// savepointed wait for locks: half a second in all, from the first statement on, then 20 ms each. A
	// part that waits in vain takes nothing from the parts after it.
	queryPatienceBegins = `SELECT set_config('tidemark.waits_until', extract(epoch FROM clock_timestamp() + interval '500 ms')::text, true)`
	queryPatience       = `SELECT set_config('lock_timeout', least(extract(epoch FROM current_setting('lock_timeout')::interval) * 1000,
			greatest(20, 1000 * (current_setting('tidemark.waits_until')::numeric - extract(epoch FROM clock_timestamp()))))::integer::text, true)`

	// queryPatienceAgain is for statements of ours that follow.
	queryPatienceAgain = `SELECT set_config('lock_timeout', '500ms', true)`

	// queryBlockers looks at the server's lock table, for a moment. It answers '' if the backend does not wait.
	queryBlockers = `SELECT ` + holders + ` FROM (SELECT unnest(pg_blocking_pids($1)) AS pid) h LEFT JOIN pg_stat_activity a ON a.pid = h.pid`

	// holders names sessions h by their row a of pg_stat_activity. A prepared transaction has none.
	holders = `coalesce(string_agg(DISTINCT CASE WHEN coalesce(h.pid, 0) = 0 THEN 'a prepared transaction' ELSE format('pid %s (%s)', h.pid, concat_ws(', ',
			'application "' || coalesce(a.application_name, '') || '"', a.state, 'in a transaction for ' || extract(epoch FROM clock_timestamp() - a.xact_start)::integer || ' s')) END, ' and '), '')`
)

// isLockTimeout says whether a statement waited for a lock in vain: lock not available, deadlock.
func isLockTimeout(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && classifyState(pgErr.Code) == ClassLock
}

// ownLockTimeout is isLockTimeout for statements that are no projection's.
func ownLockTimeout(err error) bool {
	var apply *ApplyError
	return isLockTimeout(err) && !errors.As(err, &apply)
}

// queuePatience queues, ahead of a savepoint, how long what follows may wait for locks.
func (t *transaction) queuePatience() {
	if t.trying { // it has a patience of its own
		return
	}
	if !t.patient {
		t.patient = true
		t.queue(queryPatienceBegins)
	}
	t.queue(queryPatience)
}

// watchLocks looks who keeps the transaction's connection from going on, until stop is called. It needs another connection of the pool; where there is none to be had, nobody knows.
func (t *transaction) watchLocks(ctx context.Context) (stop func()) {
	pid := t.conn.PgConn().PID()
	watching, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	look := func() {
		defer close(done)
		for found := ""; found == "" && watching.Err() == nil; pause(watching, lockLook) {
			conn, err := t.p.cfg.Pool.Acquire(watching)
			if err != nil {
				return
			}
			bounded, end := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout) // it takes a millisecond: cut short, it would cost a connection
			err = conn.QueryRow(bounded, queryBlockers, int32(pid)).Scan(&found)
			end()
			conn.Release()
			if err != nil {
				return
			}
			if found != "" {
				t.blockers = found
			}
		}
	}
	timer := time.AfterFunc(lockLook, look)
	return func() {
		cancel()
		if !timer.Stop() {
			<-done
		}
	}
}
