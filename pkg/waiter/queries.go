package waiter

const (
	// queryAwait moves a sequence. It need not survive a crash, so it does not wait for the disk.
	queryAwait = `SELECT set_config('synchronous_commit', 'off', true), tidemark.await($1)`

	// queryHistory reads three rows: the history, and up to where an earlier one has the same events.
	queryHistory = `SELECT coalesce(tidemark.history(), ''), tidemark.resume(9223372036854775807, $1)`

	// queryApplied probes primary keys, a few for each event. It takes no lock.
	queryApplied = `SELECT state, at_seq, message, event_id
		FROM tidemark.applied($1::text[], $2::bigint[], $3::bigint[], $4::text[])`
)
