package status

// Each reads catalogues and statistics, takes no lock and is bounded by statement_timeout.
const (
	// queryTimeout has nothing compiled: a few rows are read by plans that are thought to cost much, and compiling them costs a second.
	queryTimeout = `SELECT set_config('statement_timeout', $1, true), set_config('jit', 'off', true)`
	queryNow     = `SELECT clock_timestamp()`

	// queryFloor answers the transaction that has held the writer floor (0x7D01 in migrations/00001_journal.sql) longest.
	queryFloor = `WITH held AS MATERIALIZED (
			SELECT l.pid, l.virtualtransaction FROM pg_locks l
			WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND (l.classid::bigint >> 16) = 32001
				AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		), holders AS (
			SELECT a.xact_start AS since, a.pid, format('process %s of %s, %s', a.pid, coalesce(nullif(a.application_name, ''), 'an application without a name'), a.state) AS holder,
				format('SELECT pg_terminate_backend(%s)', a.pid) AS remedy
			FROM held h JOIN pg_stat_activity a USING (pid)
			UNION ALL
			SELECT x.prepared, 0, format('prepared transaction %L', x.gid), format('ROLLBACK PREPARED %L', x.gid)
			FROM held h JOIN pg_locks t ON h.pid IS NULL AND t.pid IS NULL AND t.locktype = 'transactionid' AND t.virtualtransaction = h.virtualtransaction
			JOIN pg_prepared_xacts x ON x.transaction = t.transactionid
			ORDER BY 1 LIMIT 1
		)
		SELECT coalesce(extract(epoch FROM clock_timestamp() - max(since)), 0)::float8, coalesce(max(pid), 0), coalesce(max(holder), ''), coalesce(max(remedy), '') FROM holders`

	// queryServer leaves 3,000,000 transactions out, which Postgres keeps for itself.
	queryServer = `SELECT coalesce(extract(epoch FROM clock_timestamp() - o.since), 0)::float8, coalesce(o.pid, 0), c.n, current_setting('max_connections')::integer, w.n
		FROM (SELECT count(*)::integer AS n FROM pg_stat_activity WHERE backend_type = 'client backend') c
		CROSS JOIN (
			SELECT greatest(2147483647 - 3000000 - greatest(age(datfrozenxid), mxid_age(datminmxid))::bigint, 0) AS n FROM pg_database WHERE datname = current_database()
		) w
		LEFT JOIN (
			SELECT xact_start AS since, pid FROM pg_stat_activity
			WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND datname = current_database()
			UNION ALL SELECT prepared, NULL FROM pg_prepared_xacts WHERE database = current_database()
			ORDER BY 1 LIMIT 1
		) o ON true`

	queryTables = `SELECT relname::text, n_live_tup, n_dead_tup, pg_total_relation_size(relid), greatest(last_vacuum, last_autovacuum), last_autovacuum
		FROM pg_stat_user_tables
		WHERE schemaname = 'tidemark' AND relname IN ('journal', 'outbox', 'leases', 'deferred', 'publications', 'parked', 'failure_log', 'inbox', 'workers')
		ORDER BY relname`
)
