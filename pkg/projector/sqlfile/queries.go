package sqlfile

// queryTouched returns what this transaction created, changed or locked for that outside the
// scratch schema: relations by their locks, everything else by the xmin of its row. A block with
// EXCEPTION in a DO block or function is a subtransaction, with an id later than the transaction's.
// Visible rows with later ids belong to such a block, which is in progress until the transaction
// ends, or to others that have committed since.
const queryTouched = `WITH top AS MATERIALIZED (SELECT pg_current_xact_id()::text::bigint AS id), made AS (
		SELECT p.pronamespace AS place, 'function' AS kind, p.proname::text AS name, p.xmin AS xid FROM pg_catalog.pg_proc p
		UNION ALL
		SELECT t.typnamespace, 'type', t.typname, t.xmin FROM pg_catalog.pg_type t WHERE t.typrelid = 0 AND t.typelem = 0
		UNION ALL
		SELECT o.oprnamespace, 'operator', o.oprname, o.xmin FROM pg_catalog.pg_operator o
		UNION ALL
		SELECT c.relnamespace, 'trigger', t.tgname, t.xmin FROM pg_catalog.pg_trigger t
			JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
		WHERE NOT t.tgisinternal
		UNION ALL
		SELECT n.oid, 'schema', n.nspname, n.xmin FROM pg_catalog.pg_namespace n
		UNION ALL
		SELECT e.extnamespace, 'extension', e.extname, e.xmin FROM pg_catalog.pg_extension e
	), touched AS (
		SELECT c.relnamespace AS place, 'relation' AS kind, c.relname::text AS name
		FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation
		WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock'
			AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
		UNION ALL
		SELECT m.place, m.kind, m.name FROM made m
		WHERE CASE WHEN age(m.xid) <= 0 THEN pg_xact_status(((SELECT x.id
			FROM top x) - age(m.xid))::text::xid8) = 'in progress' ELSE false END
	)
	SELECT t.kind || ' ' || CASE t.kind WHEN 'schema' THEN quote_ident(t.name) ELSE format('%I.%I', n.nspname, t.name) END
	FROM touched t JOIN pg_catalog.pg_namespace n ON n.oid = t.place
	WHERE n.nspname <> 'tidemark_check_' || pg_backend_pid() AND n.nspname !~ '^pg_toast' ORDER BY 1`

// queryReached returns the tables and views in other schemas that this transaction has locked and
// whose names also exist in the scratch schema, the current one.
const queryReached = `SELECT DISTINCT format('%I.%I', n.nspname, c.relname)
	FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation
	JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	JOIN pg_catalog.pg_class own ON own.relname = c.relname AND own.relnamespace = current_schema()::regnamespace
	WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND c.relkind IN ('r', 'p', 'v', 'm') AND c.oid <> own.oid
		AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
	ORDER BY 1`
