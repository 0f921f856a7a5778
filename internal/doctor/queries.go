package doctor

// Each statement takes no lock and is bounded by statement_timeout.
const (
	queryServer    = `SELECT current_setting('server_version'), current_setting('server_version_num')::integer, version()`
	queryCatalogue = `SELECT to_regclass($1) IS NOT NULL`

	queryRecovery = `SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only')::boolean,
		current_setting('default_transaction_isolation')`

	// queryEncoding returns the database's encoding, and the settings of client_encoding other than UTF8: of
	// all sessions or of this role, and of other roles that may append.
	queryEncoding = `SELECT current_setting('server_encoding'),
			coalesce(array_agg(s.told ORDER BY s.told) FILTER (WHERE s.role = 0 OR r.rolname = session_user), '{}'),
			coalesce(array_agg(s.told ORDER BY s.told) FILTER (WHERE s.role <> 0 AND r.rolname <> session_user), '{}')
		FROM (SELECT s.setrole AS role, format('%s by ALTER %s', o.setting,
				CASE WHEN s.setrole <> 0 THEN 'ROLE ' || pg_get_userbyid(s.setrole)
					WHEN s.setdatabase = 0 THEN 'ROLE ALL' ELSE 'DATABASE' END) AS told
			FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) AS o (setting)
			WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
				AND o.setting ~* '^client_encoding=' AND o.setting !~* '=(utf-?8|unicode)$') s
		LEFT JOIN pg_roles r ON r.oid = s.role
		WHERE s.role = 0 OR r.rolname = session_user
			OR EXISTS (SELECT FROM pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace
				WHERE n.nspname = 'tidemark' AND f.proname = 'append' AND has_function_privilege(s.role, f.oid, 'EXECUTE'))`

	// queryFormats returns settings by which Postgres prints values in another way than programs read them.
	// PgBouncer does not track these.
	queryFormats = `SELECT format('%s=%s, not %s', s.name, s.setting, w.value)
		FROM (VALUES ('IntervalStyle', 'postgres'), ('bytea_output', 'hex'), ('extra_float_digits', '1')) AS w (name, value)
		JOIN pg_settings s ON s.name = w.name
		WHERE s.setting <> w.value AND (s.name <> 'extra_float_digits' OR s.setting::integer < 1)
		ORDER BY s.name COLLATE "C"`

	queryDurability = `SELECT current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean,
		current_setting('synchronous_commit')`

	querySequence = `SELECT s.cache_size, s.min_value FROM pg_sequences s
		WHERE s.schemaname = 'tidemark' AND s.sequencename = 'journal_position'`

	// queryConnections subtracts the connections reserved for superusers.
	queryConnections = `SELECT current_setting('max_connections')::integer -
		current_setting('superuser_reserved_connections')::integer,
		(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'
			AND application_name <> 'tidemark-worker')::integer,
		(SELECT count(*) FROM tidemark.workers WHERE seen_at > now() - interval '10 s')::integer`

	queryIdle       = `SELECT current_setting('idle_in_transaction_session_timeout')`
	queryAutovacuum = `SELECT current_setting('autovacuum')::boolean`

	// queryStorage returns the options of hot tables that differ from the migrations, and tables without
	// autovacuum.
	queryStorage = `SELECT format('%s has %s, not %s', w.name,
		coalesce((SELECT o FROM unnest(c.reloptions) AS o WHERE starts_with(o, split_part(w.option, '=', 1) || '=')),
		'no ' || split_part(w.option, '=', 1)), w.option)
		FROM (VALUES ('outbox', 'autovacuum_vacuum_scale_factor=0.02'), ('outbox', 'autovacuum_vacuum_cost_delay=0'),
				('leases', 'fillfactor=50'), ('leases', 'autovacuum_vacuum_scale_factor=0.05'),
					('leases', 'autovacuum_vacuum_cost_delay=0'),
				('workers', 'fillfactor=50'), ('readers', 'fillfactor=25'),
					('readers', 'autovacuum_vacuum_cost_delay=0'), ('inbox', 'autovacuum_vacuum_cost_delay=0')) AS w (name,
					option)
		JOIN pg_class c ON c.relnamespace = 'tidemark'::regnamespace AND c.relname = w.name
		WHERE NOT w.option = ANY (coalesce(c.reloptions, '{}'))
		UNION ALL
		SELECT format('%s has autovacuum_enabled=false', c.relname) FROM pg_class c
		WHERE c.relnamespace = 'tidemark'::regnamespace AND 'autovacuum_enabled=false' = ANY (c.reloptions)
		ORDER BY 1`

	// queryRole tells what this role is for: it may write the tables of workers, or those of publishers, or
	// neither, which append or read.
	queryRole = `SELECT CASE
			WHEN EXISTS (SELECT FROM unnest('{leases,outbox,failed,workers,projections}'::text[]) AS t (name)
				WHERE has_table_privilege(format('tidemark.%s', t.name), 'INSERT, UPDATE, DELETE')) THEN 'workers'
			WHEN has_table_privilege('tidemark.readers', 'INSERT, UPDATE, DELETE') THEN 'publishers' ELSE '' END`

	// queryPrivileges returns the privileges that workers or publishers ($1) need and this role lacks. They need few of
	// the functions that run as the owner, and none of those that append. Of those it returns the ones that
	// are not SECURITY DEFINER although another is: roles.sql treats all three alike.
	queryPrivileges = `SELECT 'CREATE on the database'
		WHERE $1 = 'workers' AND NOT has_database_privilege(current_database(), 'CREATE')
		UNION ALL
		SELECT format('%s on tidemark.%s', p.privilege, c.relname) FROM pg_class c CROSS
			JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS p (privilege)
		WHERE c.relnamespace = 'tidemark'::regnamespace AND c.relkind IN ('r', 'p')
			AND c.relname NOT IN ('tokens', 'sessions', 'erasure_secret')
			AND ($1 = 'workers' OR c.relname IN ('journal', 'event_tags', 'readers', 'relays', 'parked', 'ghosts'))
			AND (p.privilege = 'SELECT' OR c.relname NOT IN ('journal', 'event_tags', 'limits', 'operator_log',
				'operator_log_head', 'scheduled', 'keys', 'deleted_keys', 'wrapping_keys', 'archives', 'journal_changes',
				'histories', 'incarnation') AND c.relname NOT LIKE 'eras%')
			AND NOT has_table_privilege(c.oid, p.privilege)
		UNION ALL
		SELECT format('EXECUTE on tidemark.%s', f.proname) FROM pg_proc f
		WHERE f.pronamespace = 'tidemark'::regnamespace AND f.prorettype <> 'trigger'::regtype
			AND f.proname NOT IN ('append', 'append_all', 'append_if', 'append_at', 'schedule', 'cancel_scheduled',
				'reschedule', 'react', 'secret_hash', 'tag_hashes', 'derive')
			AND (NOT f.prosecdef OR f.proname IN ('fire_scheduled', 'wait_for_work', 'end_wait', 'prune_log')
				OR $1 = 'workers' AND f.proname = 'log_act')
			AND NOT has_function_privilege(f.oid, 'EXECUTE')
		UNION ALL
		SELECT DISTINCT format('SECURITY DEFINER of tidemark.%s, which others have', f.proname) FROM pg_proc f
		WHERE f.pronamespace = 'tidemark'::regnamespace AND f.proname IN ('append', 'append_all', 'append_if')
			AND NOT f.prosecdef
			AND EXISTS (SELECT FROM pg_proc o WHERE o.pronamespace = f.pronamespace
				AND o.proname IN ('append', 'append_all', 'append_if') AND o.prosecdef)
		ORDER BY 1 LIMIT 20`

	// queryLogHead returns the record after which at most $1 records follow, the end of the chain, and
	// the ID of a record that is outside the chain for longer than workers need to link what acts have
	// left. It reads rows by the index on link.
	queryLogHead = `SELECT coalesce(l.link, h.pruned), coalesce(l.hash, h.pruned_hash), h.link, h.hash,
			coalesce((SELECT b.id FROM tidemark.operator_log b
				WHERE b.link IS NULL AND b.at < now() - interval '15 minutes' LIMIT 1), 0)
		FROM tidemark.operator_log_head h
		LEFT JOIN LATERAL (SELECT o.link, o.hash FROM tidemark.operator_log o WHERE o.link <= h.link - $1::bigint
			ORDER BY o.link DESC LIMIT 1) l ON true`

	// queryWalkLog hashes up to $3 records. It finds them by the index on link.
	queryWalkLog = `SELECT link, hash, coalesce(fault, '') FROM tidemark.walk_log($1, $2, $3)`

	// queryArchives reads small tables, and erasures.
	queryArchives = `SELECT (SELECT count(*) FROM tidemark.restore_requests
			WHERE kept_until IS NULL AND asked_at < now() - interval '1 minute'),
		(SELECT count(*) FROM tidemark.retention WHERE error <> ''),
		(SELECT count(*) FROM tidemark.erasures WHERE ended_at IS NULL AND began_at < now() - interval '1 hour')`

	queryBackend = `SELECT pg_backend_pid()`

	queryListening = `SELECT (SELECT last_value FROM tidemark.waiting) > 0,
		(SELECT count(*) FROM tidemark.workers WHERE seen_at > now() - interval '10 s')::integer`
)

const tablesOfCitus = `SELECT c.relname::text FROM pg_catalog.pg_dist_partition d
		JOIN pg_class c ON c.oid = d.logicalrelid
			WHERE c.relnamespace = 'tidemark'::regnamespace ORDER BY 1`

const tablesOfTimescale = `SELECT table_name::text FROM _timescaledb_catalog.hypertable
		WHERE schema_name = 'tidemark' ORDER BY 1`
