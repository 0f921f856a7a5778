package projector

const (
	// queryBegin opens the transaction of a group. It is pipelined with the reads that follow.
	queryBegin  = `BEGIN ISOLATION LEVEL READ COMMITTED`
	queryCommit = `COMMIT`

	// queryCommitBegin commits, and opens the next transaction with the same isolation.
	queryCommitBegin = `COMMIT AND CHAIN`

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

	// queryStatementTimeout changes the limit on statements for what follows in the transaction.
	queryStatementTimeout = `SELECT set_config('statement_timeout', $1, true)`
)
