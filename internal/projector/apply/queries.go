package apply

// The statements around an inline apply, in the caller's transaction.
const (
	querySavepoint  = `SAVEPOINT tidemark_inline`
	queryUndoInline = `ROLLBACK TO SAVEPOINT tidemark_inline`
	queryRelease    = `RELEASE SAVEPOINT tidemark_inline`

	// querySettingsNow reads what querySetInline changes until the transaction ends or it is restored.
	querySettingsNow = `SELECT current_setting('transaction_isolation'), current_setting('search_path'),
		current_setting('enable_seqscan'), current_setting('jit'),
		current_setting('enable_memoize'), current_setting('lock_timeout'), current_setting('TimeZone'),
		current_setting('DateStyle'), current_setting('IntervalStyle'), current_setting('bytea_output'),
		current_setting('extra_float_digits'), current_setting('standard_conforming_strings')`
	querySetInline = `SELECT set_config('search_path', $1, true), set_config('enable_seqscan', $2, true),
		set_config('jit', $3, true), set_config('enable_memoize', $4, true),
		set_config('lock_timeout', $5, true), set_config('TimeZone', $6, true), set_config('DateStyle', $7, true),
		set_config('IntervalStyle', $8, true), set_config('bytea_output', $9, true),
		set_config('extra_float_digits', $10, true), set_config('standard_conforming_strings', $11, true)`
)

// queryShadowPatience limits a shadow's waits for rows: it gives way to workers before a deadlock.
const queryShadowPatience = `SELECT set_config('lock_timeout', '200ms', true)`

// queryReset deletes a campaign's rows from one table. It uses an index on campaign_id, if there is one.
const queryReset = `DELETE FROM %s WHERE campaign_id = ANY ($1::text[])`

// queryResetKeys is queryReset for keys of a projection across campaigns.
const queryResetKeys = `DELETE FROM %s WHERE %s::text = ANY ($1::text[])`

// The statements of a group's transaction.
const (
	// QueryBegin opens a group's transaction. It is pipelined with the reads that follow.
	QueryBegin  = `BEGIN ISOLATION LEVEL READ COMMITTED`
	QueryCommit = `COMMIT`

	// QueryCommitBegin commits and opens the next transaction, with the same isolation.
	QueryCommitBegin = `COMMIT AND CHAIN`

	// querySettings sets up a group's transaction and returns the limit on statements, in
	// milliseconds. enable_seqscan is off: a plan prepared while its table was empty must not
	// become a scan later. jit is off: a scan that cannot be avoided now looks so costly that it
	// would be compiled. enable_memoize is off: each campaign comes once. plan_cache_mode is
	// generic: planning short statements for each group's values took longer than running them. Time
	// zone and formats of text are pinned: rows must not depend on who applies or verifies them. The
	// server ends the transaction if this process stops in the middle ($2). It cancels a statement
	// that takes too long ($3, in milliseconds) or waits too long for a lock ($4, shorter, so the
	// error tells which of the two it was). A lower limit of the role or the database stays.
	querySettings = `SELECT set_config('search_path', $1, true), set_config('enable_seqscan', 'off', true),
		set_config('jit', 'off', true), set_config('enable_memoize', 'off', true),
		set_config('plan_cache_mode', 'force_generic_plan', true),
			set_config('idle_in_transaction_session_timeout', $2, true),
		set_config('lock_timeout', CASE WHEN current_setting('lock_timeout')::interval BETWEEN '1 ms'
			AND make_interval(secs => $4 / 1000.0)
			THEN current_setting('lock_timeout') ELSE $4::bigint::text END, true),
		set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO, MDY', true),
		set_config('IntervalStyle', 'postgres', true), set_config('bytea_output', 'hex', true),
		set_config('extra_float_digits', '1', true), set_config('standard_conforming_strings', 'on', true),
		extract(epoch FROM set_config('statement_timeout', CASE
			WHEN current_setting('statement_timeout')::interval BETWEEN '1 ms' AND make_interval(secs => $3 / 1000.0)
			THEN current_setting('statement_timeout') ELSE $3::bigint::text END, true)::interval)::float8 * 1000`

	// QueryStatementTimeout changes the limit on statements for the rest of the transaction.
	QueryStatementTimeout = `SELECT set_config('statement_timeout', $1, true)`
)
