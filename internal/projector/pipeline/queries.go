package pipeline

// The statements around a part of a transaction that may fail by itself.
const (
	// QuerySavepointPart and the two below stand around a part.
	QuerySavepointPart = `SAVEPOINT tidemark`
	QueryRollbackPart  = `ROLLBACK TO SAVEPOINT tidemark`
	QueryReleasePart   = `RELEASE SAVEPOINT tidemark`

	// QueryPatienceBegins and QueryPatience limit how long the statements of a savepointed group
	// wait for locks: half a second in all, from the first statement on, then 20 ms each,
	// however long earlier parts have waited.
	QueryPatienceBegins = `SELECT set_config('tidemark.waits_until',
		extract(epoch FROM clock_timestamp() + interval '500 ms')::text, true)`
	QueryPatience = `SELECT set_config('lock_timeout', least(extract(epoch
		FROM current_setting('lock_timeout')::interval) * 1000,
			greatest(20, 1000 * (current_setting('tidemark.waits_until')::numeric - extract(epoch
				FROM clock_timestamp()))))::integer::text, true)`

	// QueryPatienceAgain is for our own statements at the end.
	QueryPatienceAgain = `SELECT set_config('lock_timeout', '500ms', true)`
)

// COMMIT checks deferred constraints and constraint triggers, and does not say which event violates
// one. Most projections have none, so nothing is checked ahead until a COMMIT has failed. Then the
// checks run after each part, so its failure has a culprit.
const (
	// querySavepointCheck and queryUndoCheck stand around queryCheckConstraints. Afterwards
	// constraints are deferred as before, and COMMIT runs triggers that have effects once.
	querySavepointCheck = `SAVEPOINT tidemark_check`
	queryUndoCheck      = `ROLLBACK TO SAVEPOINT tidemark_check`

	// queryCheckConstraints checks everything that is deferred, with the locks that COMMIT would take.
	queryCheckConstraints = `SET CONSTRAINTS ALL IMMEDIATE`
)
