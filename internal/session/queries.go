package session

// queryReadCommitted changes its session only if the session belongs to the connection with process
// ID %d. Behind a pooler it belongs to others too and would keep the setting for other programs.
const queryReadCommitted = `SELECT set_config('default_transaction_isolation', 'read committed', false)
	WHERE pg_backend_pid() = %d AND current_setting('default_transaction_isolation') <> 'read committed'`

// queryNoJIT switches JIT off for the transaction. The planner overestimates statements that count
// and sample, and compiling them takes longer than running them.
const queryNoJIT = `SELECT set_config('jit', 'off', true)`

// queryDatabase identifies the database while its server runs.
const queryDatabase = `SELECT format('%s %s', d.oid, extract(epoch FROM pg_postmaster_start_time()))
	FROM pg_database d WHERE d.datname = current_database()`
