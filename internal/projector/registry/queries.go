package registry

// The statements of the registry.
const (
	// QueryMakeSchema serves workers of several groups that start together: the block catches the
	// error, so it is not in the server's log.
	QueryMakeSchema = `DO $schema$ BEGIN
			IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s) THEN
				CREATE SCHEMA %s;
			END IF;
		EXCEPTION WHEN unique_violation OR duplicate_schema THEN
			NULL; -- another group was quicker
		END $schema$`

	// QuerySearchPath sets the search_path for the rest of the transaction.
	QuerySearchPath = `SELECT set_config('search_path', $1, true)`

	// QueryMaking is QuerySearchPath for transactions that check and make what projections declare. A
	// literal of theirs means the same as when events are applied, whatever the session's formats are.
	QueryMaking = `SELECT set_config('search_path', $1, true), set_config('standard_conforming_strings', 'on', true),
		set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO, MDY', true),
		set_config('IntervalStyle', 'postgres', true), set_config('bytea_output', 'hex', true),
		set_config('extra_float_digits', '1', true)`

	// QueryRegistryShared takes the consumer group's registry lock, shared: the registry does not
	// change while the transaction is open. Applies never wait for each other. They wait for an act
	// that changes the registry: up to 300 ms while it waits for the lock, then until it ends.
	QueryRegistryShared = `SELECT pg_advisory_xact_lock_shared(tidemark.lock_key(32003, hashtextextended($1, 0)))`

	// QueryRegistryGroup is QueryRegistryShared with a lock_timeout of at most 500 ms for later
	// statements: other groups release locks sooner, and another session's lock must not hold up other
	// campaigns.
	QueryRegistryGroup = `SELECT pg_advisory_xact_lock_shared(tidemark.lock_key(32003, hashtextextended($1, 0))),
		set_config('lock_timeout', least(extract(epoch FROM current_setting('lock_timeout')::interval) * 1000,
			500)::integer::text, true)`

	// Columns of tidemark.projections p fill a [Registered]: a row, and a probe of the pauses.
	Columns = `p.name, p.version, p.state, p.consumer_group, p.schema_name, p.table_names, EXISTS (
			SELECT FROM tidemark.pauses x WHERE x.consumer_group = p.consumer_group AND x.expires_at > clock_timestamp()
				AND (x.scope = 'projection' AND x.name = p.name
					OR x.scope = 'group' AND x.name = '' AND p.scope = 'journal')), p.registered_at, p.resolved_ahead,
			p.scope = 'journal'`
	// QueryRegistry reads the rows of a group and of some names, from a table with one row per
	// projection. It probes the pauses for each.
	QueryRegistry = `SELECT ` + Columns + `
		FROM tidemark.projections p WHERE p.consumer_group = $1 OR p.name = ANY ($2) ORDER BY p.name`

	// queryMayReact reads the catalogue.
	queryMayReact = `SELECT current_user::text, has_function_privilege(f.oid, 'EXECUTE') FROM pg_proc f
		WHERE f.pronamespace = 'tidemark'::regnamespace AND f.proname = 'react'`

	// queryFiling locks the row, so its state stays true until the transaction ends.
	queryFiling = `SELECT p.state IN ('joining', 'copied') AND p.version = $2 FROM tidemark.projections p
		WHERE p.name = $1 FOR UPDATE`

	// queryInsertProjection and those below serve registration, under the registry's lock. Tables come
	// in the order of their creation.
	queryInsertProjection = `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names,
		own_reset, own_objects, resolved_ahead, state, scope, statements, takes)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::text::jsonb)`

	// queryOthers notes files whose statements are others than those that made the tables, and since when.
	// Most starts find none, and write nothing.
	queryOthers = `UPDATE tidemark.projections p SET
			statements = CASE p.statements WHEN '' THEN u.hash ELSE p.statements END,
			other = CASE p.statements WHEN '' THEN p.other ELSE u.hash END,
			other_since = CASE WHEN p.statements = '' OR p.other = u.hash THEN p.other_since ELSE clock_timestamp() END
		FROM unnest($1::text[], $2::integer[], $3::text[]) AS u (name, version, hash)
		WHERE p.name = u.name AND p.version = u.version AND p.statements <> u.hash
		RETURNING p.name, p.version, p.other = u.hash, coalesce(p.other_since < clock_timestamp() - $4::interval, false)`
	queryRenew = `UPDATE tidemark.projections SET own_reset = $2, takes = $3::text::jsonb
		WHERE name = $1 AND (own_reset <> $2 OR takes IS DISTINCT FROM $3::text::jsonb)`
	queryTables = `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')`

	// queryMadeTables returns the tables that are not among $2 and that this transaction has locked as
	// their creator does. Others may create tables in the schema at the same time.
	queryMadeTables = `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND c.relname <> ALL ($2::text[]) AND EXISTS (SELECT FROM pg_locks l
			WHERE l.locktype = 'relation' AND l.relation = c.oid AND l.mode = 'AccessExclusiveLock'
				AND l.pid = pg_backend_pid() AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
		ORDER BY c.oid`

	// querySharedTables returns the tables without the column campaign_id, and those that have keys, but
	// none with it. Numbers that a sequence gives are no keys here. It reads the catalogue.
	querySharedTables = `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'campaign_id' AND NOT a.attisdropped
			CROSS JOIN LATERAL (SELECT count(*) AS keys, count(*) FILTER (WHERE a.attnum = ANY (i.indkey)) AS own
				FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND NOT EXISTS (
					SELECT FROM pg_attribute s WHERE s.attrelid = c.oid AND s.attnum = ANY (i.indkey)
						AND pg_get_serial_sequence(c.oid::regclass::text, s.attname) IS NOT NULL)) k
		WHERE n.nspname = $1 AND c.relname = ANY ($2) AND (a.attnum IS NULL OR k.keys > 0 AND k.own = 0)
		ORDER BY array_position($2, c.relname::text)`

	// queryFunctionExists reads the catalogue by name. queryCallFunction lets the database apply a
	// group; see pkg/projector/sqlfile/function.go.
	queryFunctionExists = `SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p
		JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1 AND p.proname = $2)`
	queryCallFunction = `SELECT %s($1::text[], $2::bigint[], $3::bigint[])`

	queryActivate = `UPDATE tidemark.projections SET state = 'active' WHERE name = $1`

	// QueryPutsOff reads the catalogue: whether tables of the group's projections have deferrable constraints.
	QueryPutsOff = `SELECT EXISTS (
		SELECT FROM tidemark.projections p JOIN pg_catalog.pg_namespace n ON n.nspname = p.schema_name
			JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = ANY (p.table_names)
			JOIN pg_catalog.pg_constraint c ON r.oid IN (c.conrelid, c.confrelid)
		WHERE p.consumer_group = $1 AND c.condeferrable)`
)

const (
	// queryRegistryExclusive waits until groups of events that began under the old registry have
	// ended. Later groups queue behind it, so lock_timeout is 300 ms.
	queryRegistryExclusive = `SELECT pg_advisory_xact_lock(tidemark.lock_key(32003, hashtextextended($1, 0)))`

	// QueryExclusivePatience bounds the wait for an exclusive lock, and so the wait of others behind it.
	// Queries of the catalogues are not compiled under it: that takes a quarter of a second.
	QueryExclusivePatience = `SELECT set_config('lock_timeout', '300ms', true), set_config('jit', 'off', true)`

	// queryGroupOf probes the primary key of a table with one row per projection.
	queryGroupOf = `SELECT coalesce((SELECT p.consumer_group FROM tidemark.projections p WHERE p.name = ANY ($1)
		ORDER BY p.name LIMIT 1), '')`

	// queryRegistryHolders reads the server's lock table.
	queryRegistryHolders = `SELECT ` + holders + ` FROM (
			SELECT l.pid FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
				AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
				AND ((l.classid::bigint << 32) | l.objid::bigint) = tidemark.lock_key(32003, hashtextextended($1, 0))
		) h LEFT JOIN pg_stat_activity a ON a.pid = h.pid`

	// QueryBlockers reads the server's lock table. It returns '' if the backend does not wait.
	QueryBlockers = `SELECT ` + holders + ` FROM (SELECT unnest(pg_blocking_pids($1)) AS pid) h LEFT
		JOIN pg_stat_activity a ON a.pid = h.pid`
)

// queryLeft probes the indexes of failed campaigns for all sets of a projection's tables.
const queryLeft = `SELECT EXISTS (SELECT FROM unnest(ARRAY[$2, $2 || '~next', $2 || '~previous']) AS s (name) WHERE
	EXISTS (SELECT FROM tidemark.failed d WHERE d.consumer_group = $1 AND d.projection = s.name
		AND d.next_attempt_at < 'infinity')
	OR EXISTS (SELECT FROM tidemark.failed d WHERE d.consumer_group = $1 AND d.projection = s.name
		AND d.status IN ('failed', 'dead')))`

// The checks at start. They lock nothing that others use, and their objects are rolled back.
const (
	queryWritable = `SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean,
		current_setting('transaction_isolation')`

	// queryColumns lists the columns of a schema's tables, and tables without columns.
	queryColumns = `SELECT c.relname, coalesce(a.attname, '') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') ORDER BY c.relname, a.attnum`

	// queryScopes reads a table with one row per projection, and the primary key of readers.
	queryScopes = `SELECT p.name, p.version, p.scope, (SELECT count(*) FROM tidemark.readers r WHERE r.topic = p.name
			AND r.kind = 'projection')
		FROM tidemark.projections p WHERE p.consumer_group = $1 AND p.state <> 'requested' ORDER BY p.name`

	// queryOwners reads a table with one row per projection.
	queryOwners = `SELECT name, version, table_names FROM tidemark.projections WHERE schema_name = $1 ORDER BY name`

	// QueryMakeScratch creates a schema for the transaction, which is rolled back with it.
	QueryMakeScratch = `DO $$ BEGIN EXECUTE format('CREATE SCHEMA tidemark_check_%s', pg_backend_pid()); END $$`

	// QuerySearchScratch puts that schema before the schemas of $1, or else before the current
	// search_path, where extensions live. Its second column is the schema's name.
	QuerySearchScratch = `SELECT set_config('search_path', concat_ws(', ', 'tidemark_check_' || pg_backend_pid(),
			nullif(coalesce($1, current_setting('search_path')), '')), true), 'tidemark_check_' || pg_backend_pid()`
)

// queryForeign returns the tables that the session must not read, with their owner and the session's
// user: those whose owner may do less than the user. Superusers are nobody's equals but theirs. A user
// is the owner's equal if it is the owner, or a member of the owner and of nothing else that the owner
// is not a member of. pg_stat_get_activity has the user who logged in, whom SET SESSION AUTHORIZATION
// does not change. If a superuser owns a table, the owner of the schema must be trusted too: it can
// put another schema in its place. With $3 names mean what they mean now, not in the transaction's
// snapshot. It reads the catalogue by name, and the roles once for each owner.
const queryForeign = withUsers + `, found AS MATERIALIZED (
		SELECT format('%I.%I', n.nspname, t.name) AS name, c.relowner, n.nspowner,
			CASE WHEN $3 THEN to_regclass(format('%I.%I', n.nspname, t.name))::oid IS DISTINCT FROM c.oid
				ELSE c.oid IS NULL END AS other
		FROM unnest($2::text[]) AS t (name) JOIN pg_namespace n ON n.nspname = $1
			LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.name
	), ` + pairs + `
	SELECT f.name, coalesce(p.owns, 'another role by now')::text, coalesce(p.rolname, session_user)::text
	FROM found f LEFT JOIN pairs p ON p.owner = f.relowner
	WHERE f.other AND $3 OR NOT (p.member AND p.able OR p.super AND EXISTS (SELECT FROM pairs s WHERE s.who = p.who
		AND s.owner = f.nspowner AND (s.member AND s.able OR s.super OR s.owns = 'pg_database_owner'
			OR s.owner = (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database()))))
	ORDER BY f.name, p.rolname`

// queryForeignSchema returns roles that may do less than the session's user, and may have put code into the
// schema: its owner, roles that may create there, and owners of what is in it. The user's equals and their members
// are trusted, and so are the owners of the database and of the schema tidemark. It reads the catalogue by the schema.
// The owners come as one array: of rows, the planner expects so many that it would compile the statement each time.
const queryForeignSchema = withUsers + `, space AS MATERIALIZED (
		SELECT n.* FROM pg_namespace n WHERE n.nspname = $1
	), found AS MATERIALIZED (
		SELECT o.relowner, n.nspowner FROM space n CROSS JOIN LATERAL unnest(ARRAY(
			SELECT n.nspowner
			UNION SELECT a.grantee FROM aclexplode(n.nspacl) AS a WHERE a.privilege_type = 'CREATE' AND a.grantee > 0
			UNION SELECT c.relowner FROM pg_class c WHERE c.relnamespace = n.oid
			UNION SELECT f.proowner FROM pg_proc f WHERE f.pronamespace = n.oid
			UNION SELECT t.typowner FROM pg_type t WHERE t.typnamespace = n.oid
			UNION SELECT o.oprowner FROM pg_operator o WHERE o.oprnamespace = n.oid)) AS o (relowner)
	), ` + pairs + `
	SELECT quote_ident($1), p.owns::text, p.rolname::text FROM pairs p
	WHERE NOT (p.super OR p.owns = 'pg_database_owner' OR EXISTS (SELECT FROM pairs w
			WHERE w.who = p.who AND w.member AND w.able AND pg_has_role(p.owner, w.owner, 'MEMBER'))
		OR p.owner IN (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database()
			UNION SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'tidemark'))
	ORDER BY p.owns, p.rolname`

const (
	withUsers = `WITH users AS MATERIALIZED (
		SELECT u.* FROM pg_roles u WHERE u.rolname = session_user
			OR u.oid = (SELECT a.usesysid FROM pg_stat_get_activity(pg_backend_pid()) a)
	)`
	pairs = `pairs AS MATERIALIZED (
		SELECT u.oid AS who, u.rolname, o.oid AS owner, o.rolname AS owns, o.rolsuper AS super,
			u.oid = o.oid OR pg_has_role(u.oid, o.oid, 'MEMBER') AS member,
			NOT u.rolsuper AND (u.oid = o.oid OR u.rolcreaterole <= o.rolcreaterole AND u.rolcreatedb <= o.rolcreatedb
				AND u.rolreplication <= o.rolreplication AND u.rolbypassrls <= o.rolbypassrls
				AND NOT EXISTS (SELECT FROM pg_roles r WHERE (
						pg_has_role(u.oid, r.oid, 'MEMBER') AND NOT pg_has_role(o.oid, r.oid, 'MEMBER')
						OR pg_has_role(u.oid, r.oid, 'MEMBER WITH ADMIN OPTION')
							AND NOT pg_has_role(o.oid, r.oid, 'MEMBER WITH ADMIN OPTION'))
					AND (r.oid <> u.oid
						OR r.oid = (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
						OR r.oid = (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'tidemark')))) AS able
		FROM users u CROSS JOIN pg_roles o
		WHERE o.oid IN (SELECT f.relowner FROM found f UNION SELECT f.nspowner FROM found f)
	)`
)
