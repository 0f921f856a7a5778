package status

// Each reads catalogues and statistics, takes no lock and is bounded by statement_timeout.
const (
	// queryTimeout has nothing compiled: a few rows are read by plans that are thought to cost much, and compiling them costs a second.
	queryTimeout = `SELECT set_config('statement_timeout', $1, true), set_config('jit', 'off', true)`
	queryNow     = `SELECT clock_timestamp()`

	// queryFloor answers the transaction that has held the writer floor (0x7D01 in migrations/00001_journal.sql) longest.
	queryFloor = `SELECT coalesce(extract(epoch FROM max(clock_timestamp() - a.xact_start)), 0)::float8, coalesce((array_agg(a.pid ORDER BY a.xact_start))[1], 0)
		FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND (l.classid::bigint >> 16) = 32001
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`

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
