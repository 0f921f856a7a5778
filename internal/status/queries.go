package status

// Each statement reads catalogues and statistics, takes no lock and is bounded by statement_timeout.
const (
	// queryTimeout also switches JIT off: the planner overestimates the cost of reading a few rows, and
	// compilation takes a second.
	queryTimeout = `SELECT set_config('statement_timeout', $1, true), set_config('jit', 'off', true)`
	queryNow     = `SELECT clock_timestamp()`
	queryThere   = `SELECT to_regclass('tidemark.journal') IS NOT NULL`

	// queryHolders reads pg_locks, and then anew what the sessions do. Tidemark's own advisory locks end
	// with their transactions, so a session that has been idle since before the look took its lock by
	// itself. 32001 to 32255 are Tidemark's namespaces.
	queryHolders = `WITH held AS MATERIALIZED (
			SELECT DISTINCT l.pid, l.virtualtransaction FROM pg_locks l
			WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.classid::bigint >> 16 BETWEEN 32001 AND 32255
				AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
				AND (SELECT pg_stat_clear_snapshot()) IS NOT NULL
		)
		SELECT a.pid, '', coalesce(a.application_name, ''), coalesce(pg_get_userbyid(a.usesysid), ''),
			coalesce(a.xact_start, a.state_change) AS since,
			format('SELECT pg_terminate_backend(%s)', a.pid)
		FROM held h CROSS JOIN LATERAL pg_stat_get_activity(coalesce(h.pid, 0)) a
		WHERE a.state = 'idle' AND a.state_change < statement_timestamp() OR a.xact_start < clock_timestamp() - $1::interval
		UNION ALL
		SELECT 0, x.gid, '', x.owner::text, x.prepared, format('ROLLBACK PREPARED %L', x.gid)
		FROM held h JOIN pg_locks t ON h.pid IS NULL AND t.pid IS NULL AND t.locktype = 'transactionid'
			AND t.virtualtransaction = h.virtualtransaction
		JOIN pg_prepared_xacts x ON x.transaction = t.transactionid
		WHERE x.prepared < clock_timestamp() - $1::interval
		ORDER BY since LIMIT 5`

	// queryServer subtracts the 3,000,000 transactions that Postgres reserves.
	queryServer = `SELECT coalesce(extract(epoch FROM clock_timestamp() - o.since), 0)::float8, coalesce(o.pid, 0),
		coalesce(o.gid, ''), c.n, current_setting('max_connections')::integer, w.n, tidemark.notify_queue_usage()
		FROM (SELECT count(*)::integer AS n FROM pg_stat_activity WHERE backend_type = 'client backend') c
		CROSS JOIN (
			SELECT greatest(2147483647 - 3000000 - greatest(age(datfrozenxid), mxid_age(datminmxid))::bigint, 0) AS n
				FROM pg_database WHERE datname = current_database()
		) w
		LEFT JOIN (
			SELECT xact_start AS since, pid, NULL AS gid FROM pg_stat_activity
			WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'
				AND datname = current_database()
			UNION ALL SELECT prepared, NULL, gid FROM pg_prepared_xacts WHERE database = current_database()
			ORDER BY 1 LIMIT 1
		) o ON true`

	// queryNotified finds the session that most likely holds the NOTIFY queue. A listener reads it between its
	// transactions, and not while its client takes nothing. Who listens cannot be seen.
	queryNotified = `SELECT a.pid, '', coalesce(a.application_name, ''), coalesce(a.usename, ''),
			coalesce(a.xact_start, a.state_change) AS since, format('SELECT pg_terminate_backend(%s)', a.pid)
		FROM pg_stat_activity a
		WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
			AND (a.xact_start IS NOT NULL OR a.wait_event = 'ClientWrite')
		ORDER BY since LIMIT 1`

	queryTables = `SELECT relname::text, n_live_tup, n_dead_tup, pg_total_relation_size(relid),
		greatest(last_vacuum, last_autovacuum), last_autovacuum
		FROM pg_stat_user_tables
		WHERE schemaname = 'tidemark' AND relname IN ('journal', 'outbox', 'leases', 'failed', 'readers', 'parked',
			'failure_log', 'inbox', 'scheduled', 'workers')
		ORDER BY relname`
)
