// Package scratch has the statements that give a transaction a schema of its own, to be rolled back.
package scratch

const (
	// Create makes the schema of the session.
	Create = `DO $$ BEGIN EXECUTE format('CREATE SCHEMA tidemark_check_%s', pg_backend_pid()); END $$`

	// Search puts it before the schemas that are searched anyway: extensions live there.
	Search = `SELECT set_config('search_path', concat_ws(', ', 'tidemark_check_' || pg_backend_pid(),
		nullif(current_setting('search_path'), '')), true)`
)
