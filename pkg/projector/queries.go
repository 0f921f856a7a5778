package projector

const (
	// queryBegin opens the transaction of a group. It is pipelined with the reads that follow.
	queryBegin  = `BEGIN ISOLATION LEVEL READ COMMITTED`
	queryCommit = `COMMIT`

	// queryCommitBegin commits, and opens the next transaction with the same isolation.
	queryCommitBegin = `COMMIT AND CHAIN`

	// querySavepointPart and those below are about what of a transaction may fail by itself.
	querySavepointPart = `SAVEPOINT tidemark`
	queryRollbackPart  = `ROLLBACK TO SAVEPOINT tidemark`
	queryReleasePart   = `RELEASE SAVEPOINT tidemark`

	// querySettings applies to the transaction: where projections' tables are, that statements go by key (the plan of one prepared while its
	// table was empty must not become a scan when it is not; a scan that cannot be avoided looks so dear then that it would be compiled; campaigns come once each, so remembering them is work for nothing; planning
	// the short ones anew for each group's values took longer than running them), and that the server ends it if this process stops in the middle, and cancels statements that take too long ($3, in milliseconds), or wait too long for a lock ($4: less, so that it says
	// which of the two it was). Where the role or the database has a lower limit that stays. It answers the limit on statements, in milliseconds.
	querySettings = `SELECT set_config('search_path', $1, true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true), set_config('enable_memoize', 'off', true),
		set_config('plan_cache_mode', 'force_generic_plan', true), set_config('idle_in_transaction_session_timeout', $2, true),
		set_config('lock_timeout', CASE WHEN current_setting('lock_timeout')::interval BETWEEN '1 ms' AND make_interval(secs => $4 / 1000.0)
			THEN current_setting('lock_timeout') ELSE $4::bigint::text END, true),
		extract(epoch FROM set_config('statement_timeout', CASE WHEN current_setting('statement_timeout')::interval BETWEEN '1 ms' AND make_interval(secs => $3 / 1000.0)
			THEN current_setting('statement_timeout') ELSE $3::bigint::text END, true)::interval)::float8 * 1000`

	// queryMakeSchema is for workers of several groups that start together: an error that a block catches
	// is not in the server's log.
	queryMakeSchema = `DO $schema$ BEGIN
			IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s) THEN
				CREATE SCHEMA %s;
			END IF;
		EXCEPTION WHEN unique_violation OR duplicate_schema THEN
			NULL; -- another group was quicker
		END $schema$`

	// querySearchPath changes where what follows in the transaction finds its tables.
	querySearchPath = `SELECT set_config('search_path', $1, true)`

	// queryStatementTimeout changes the limit on statements for what follows in the transaction.
	queryStatementTimeout = `SELECT set_config('statement_timeout', $1, true)`

	// queryRegistryShared takes the lock of the consumer group's registry in shared mode: that part of the registry does not change while the transaction is open. Applies never wait for
	// each other. They wait for an act that changes it, for 300 ms while that waits in turn, and for as long as it takes.
	queryRegistryShared = `SELECT pg_advisory_xact_lock_shared(tidemark.lock_key(32003, hashtextextended($1, 0)))`

	// queryRegistryGroup is queryRegistryShared, and bounds how long the statements that follow wait for locks: what other groups hold is free sooner, and what another session
	// holds is not to keep the group's other campaigns waiting.
	queryRegistryGroup = `SELECT pg_advisory_xact_lock_shared(tidemark.lock_key(32003, hashtextextended($1, 0))),
		set_config('lock_timeout', least(extract(epoch FROM current_setting('lock_timeout')::interval) * 1000, 500)::integer::text, true)`

	// queryRegistry reads a table of one row a projection, and probes the pauses for each.
	queryRegistry = `SELECT p.name, p.version, p.state, p.consumer_group, p.schema_name, p.table_names, EXISTS (
			SELECT FROM tidemark.pauses x WHERE x.scope = 'projection' AND x.consumer_group = p.consumer_group AND x.name = p.name AND x.expires_at > clock_timestamp()), p.registered_at, p.resolved_ahead
		FROM tidemark.projections p WHERE p.consumer_group = $1 OR p.name = ANY ($2) ORDER BY p.name`

	// queryFiling keeps the row until the transaction ends: what it says stays true.
	queryFiling = `SELECT p.state IN ('joining', 'copied') AND p.version = $2 FROM tidemark.projections p WHERE p.name = $1 FOR UPDATE`

	// queryInsertProjection and those below are registration's, under the registry's lock. Tables come in the order of their creation.
	queryInsertProjection = `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, own_reset, own_objects, resolved_ahead, state)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'joining')`
	queryOwnReset = `UPDATE tidemark.projections SET own_reset = $2 WHERE name = $1 AND own_reset <> $2`
	queryTables   = `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') ORDER BY c.oid`

	// queryFunctionExists reads the catalogue, by name. queryCallFunction lets the database apply a group; see sqlfile_function.go.
	queryFunctionExists = `SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1 AND p.proname = $2)`
	queryCallFunction   = `SELECT %s($1::text[], $2::bigint[], $3::bigint[])`

	queryActivate = `UPDATE tidemark.projections SET state = 'active' WHERE name = $1`
)
