package session

// queryReadCommitted changes the session it runs in, and only where it is that of the connection with
// the process id %d. Behind a pooler it is another's, and would keep the setting for other programs.
const queryReadCommitted = `SELECT set_config('default_transaction_isolation', 'read committed', false)
	WHERE pg_backend_pid() = %d AND current_setting('default_transaction_isolation') <> 'read committed'`

// queryNoJIT has the transaction's statements run as they are. What counts and samples is estimated to cost much more
// than it does, and compiling it takes longer than running it.
const queryNoJIT = `SELECT set_config('jit', 'off', true)`
