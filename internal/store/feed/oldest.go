package feed

import (
	"context"
	"fmt"
	"time"
)

// OpenAppend is a transaction that has appended and has neither committed nor rolled back. Its zero value is none.
type OpenAppend struct {
	Age    time.Duration // of the transaction
	PID    int           // its backend; 0: none, not to be seen, or it is prepared
	Holder string        // which it is: a process and its application, or the name of a prepared transaction
	Remedy string        // the statement that ends it
}

// queryOldestAppend answers the transaction that has held the writer floor (0x7D01 in
// migrations/00001_journal.sql) longest. It reads the lock table and statistics, and takes no lock.
const queryOldestAppend = `WITH held AS MATERIALIZED (
		SELECT l.pid, l.virtualtransaction FROM pg_locks l
		WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND (l.classid::bigint >> 16) = 32001
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	), holders AS (
		SELECT a.xact_start AS since, a.pid, format('SELECT pg_terminate_backend(%s)', a.pid) AS remedy,
			format('process %s of %s, %s', a.pid,
				coalesce(nullif(a.application_name, ''), 'an application without a name'), a.state) AS holder
		FROM held h JOIN pg_stat_activity a USING (pid)
		UNION ALL
		SELECT x.prepared, 0, format('ROLLBACK PREPARED %L', x.gid), format('prepared transaction %L', x.gid)
		FROM held h
		JOIN pg_locks t ON h.pid IS NULL AND t.pid IS NULL AND t.locktype = 'transactionid'
			AND t.virtualtransaction = h.virtualtransaction
		JOIN pg_prepared_xacts x ON x.transaction = t.transactionid
		ORDER BY 1 LIMIT 1
	)
	SELECT coalesce(extract(epoch FROM clock_timestamp() - max(since)), 0)::float8, coalesce(max(pid), 0),
		coalesce(max(holder), ''), coalesce(max(remedy), '')
	FROM holders`

// OldestAppend answers the oldest append that is open: readers of the whole journal wait for it.
func OldestAppend(ctx context.Context, db Querier) (OpenAppend, error) {
	var open OpenAppend
	var seconds float64
	if err := scanOne(ctx, db, queryOldestAppend, []any{&seconds, &open.PID, &open.Holder, &open.Remedy}); err != nil {
		return OpenAppend{}, fmt.Errorf("look for open appends: %w", err)
	}
	open.Age = time.Duration(seconds * float64(time.Second))
	return open, nil
}
