package pages

// queryNotices probes the primary key for each position.
const queryNotices = `SELECT "position", event_type, intent, tags FROM tidemark.notices($1, $2)`

// queryNextPosition probes the index on position for the next event below the writer floor. It takes no lock.
const queryNextPosition = `SELECT coalesce(min("position"), $2) FROM tidemark.journal
	WHERE "position" > $1 AND "position" <= $2`

// queryTimeout limits the statements of a transaction.
const queryTimeout = `SELECT set_config('statement_timeout', $1, true)`
