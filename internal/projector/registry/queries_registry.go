package registry

// The statements of the registry.
const (
	// QueryMakeSchema is for workers of several groups that start together: an error that a block catches
	// is not in the server's log.
	QueryMakeSchema = `DO $schema$ BEGIN
			IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s) THEN
				CREATE SCHEMA %s;
			END IF;
		EXCEPTION WHEN unique_violation OR duplicate_schema THEN
			NULL; -- another group was quicker
		END $schema$`

	// QuerySearchPath changes where what follows in the transaction finds its tables.
	QuerySearchPath = `SELECT set_config('search_path', $1, true)`

	// QueryRegistryShared takes the lock of the consumer group's registry in shared mode: that part of
	// the registry does not change while the transaction is open. Applies never wait for each other.
	// They wait for an act that changes it, for 300 ms while that waits in turn, and for as long as it
	// takes.
	QueryRegistryShared = `SELECT pg_advisory_xact_lock_shared(tidemark.lock_key(32003, hashtextextended($1, 0)))`

	// QueryRegistryGroup is queryRegistryShared, and bounds how long the statements that follow wait
	// for locks: what other groups hold is free sooner, and what another session holds is not to keep
	// the group's other campaigns waiting.
	QueryRegistryGroup = `SELECT pg_advisory_xact_lock_shared(tidemark.lock_key(32003, hashtextextended($1, 0))),
		set_config('lock_timeout', least(extract(epoch FROM current_setting('lock_timeout')::interval) * 1000,
			500)::integer::text, true)`

	// QueryRegistry reads a table of one row a projection, and probes the pauses for each.
	QueryRegistry = `SELECT p.name, p.version, p.state, p.consumer_group, p.schema_name, p.table_names, EXISTS (
			SELECT FROM tidemark.pauses x WHERE x.scope = 'projection' AND x.consumer_group = p.consumer_group
				AND x.name = p.name AND x.expires_at > clock_timestamp()), p.registered_at, p.resolved_ahead
		FROM tidemark.projections p WHERE p.consumer_group = $1 OR p.name = ANY ($2) ORDER BY p.name`

	// queryFiling keeps the row until the transaction ends: what it says stays true.
	queryFiling = `SELECT p.state IN ('joining', 'copied') AND p.version = $2 FROM tidemark.projections p
		WHERE p.name = $1 FOR UPDATE`

	// queryInsertProjection and those below are registration's, under the registry's lock. Tables come
	// in the order of their creation.
	queryInsertProjection = `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names,
		own_reset, own_objects, resolved_ahead, state)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'joining')`
	queryOwnReset = `UPDATE tidemark.projections SET own_reset = $2 WHERE name = $1 AND own_reset <> $2`
	queryTables   = `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') ORDER BY c.oid`

	// queryFunctionExists reads the catalogue, by name. queryCallFunction lets the database apply a
	// group; see sqlfile_function.go.
	queryFunctionExists = `SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p
		JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1 AND p.proname = $2)`
	queryCallFunction = `SELECT %s($1::text[], $2::bigint[], $3::bigint[])`

	queryActivate = `UPDATE tidemark.projections SET state = 'active' WHERE name = $1`

	// QueryPutsOff reads the catalogue: whether tables of the group's projections have constraints that may be deferred.
	QueryPutsOff = `SELECT EXISTS (
		SELECT FROM tidemark.projections p JOIN pg_catalog.pg_namespace n ON n.nspname = p.schema_name
			JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = ANY (p.table_names)
			JOIN pg_catalog.pg_constraint c ON r.oid IN (c.conrelid, c.confrelid)
		WHERE p.consumer_group = $1 AND c.condeferrable)`
)
