package pipeline

// The statements around what may fail by itself.
const (
	// QuerySavepointPart and those below are about what of a transaction may fail by itself.
	QuerySavepointPart = `SAVEPOINT tidemark`
	QueryRollbackPart  = `ROLLBACK TO SAVEPOINT tidemark`
	QueryReleasePart   = `RELEASE SAVEPOINT tidemark`

	// QueryPatienceBegins and queryPatience bound how long the statements of a group that is applied
	// savepointed wait for locks: half a second in all, from the first statement on, then 20 ms each. A
	// part that waits in vain takes nothing from the parts after it.
	QueryPatienceBegins = `SELECT set_config('tidemark.waits_until',
		extract(epoch FROM clock_timestamp() + interval '500 ms')::text, true)`
	QueryPatience = `SELECT set_config('lock_timeout', least(extract(epoch
		FROM current_setting('lock_timeout')::interval) * 1000,
			greatest(20, 1000 * (current_setting('tidemark.waits_until')::numeric - extract(epoch
				FROM clock_timestamp()))))::integer::text, true)`

	// QueryPatienceAgain is for statements of ours that follow.
	QueryPatienceAgain = `SELECT set_config('lock_timeout', '500ms', true)`
)

// Constraints and constraint triggers that are deferred are checked by COMMIT, which does not say
// which event violates one. Most projections have none, so it does not look ahead until a COMMIT has
// failed; then each part is made to show what COMMIT will say of it.
const (
	// querySavepointCheck and queryUndoCheck stand around queryCheckConstraints: after it they are
	// deferred as before, and COMMIT runs the triggers that have effects, once.
	querySavepointCheck = `SAVEPOINT tidemark_check`
	queryUndoCheck      = `ROLLBACK TO SAVEPOINT tidemark_check`

	// queryCheckConstraints checks all that the transaction has put off, with the locks that COMMIT would take.
	queryCheckConstraints = `SET CONSTRAINTS ALL IMMEDIATE`
)
