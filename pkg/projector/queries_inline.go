package projector

// The statements around an inline apply, in somebody else's transaction.
const (
	querySavepoint  = `SAVEPOINT tidemark_inline`
	queryUndoInline = `ROLLBACK TO SAVEPOINT tidemark_inline`
	queryRelease    = `RELEASE SAVEPOINT tidemark_inline`

	// querySettingsNow reads what querySetInline changes until the transaction ends or it is put back.
	querySettingsNow = `SELECT current_setting('transaction_isolation'), current_setting('search_path'), current_setting('enable_seqscan'), current_setting('jit'),
		current_setting('enable_memoize'), current_setting('lock_timeout')`
	querySetInline = `SELECT set_config('search_path', $1, true), set_config('enable_seqscan', $2, true), set_config('jit', $3, true), set_config('enable_memoize', $4, true),
		set_config('lock_timeout', $5, true)`
)

// queryShadowPatience keeps a shadow from waiting for rows: it gives way to workers before they could be in a deadlock with it.
const queryShadowPatience = `SELECT set_config('lock_timeout', '200ms', true)`
