package pages

// queryNotices probes the primary key for each position.
const queryNotices = `SELECT "position", event_type, intent, tags FROM tidemark.notices($1, $2)`

// queryTimeout limits the statements of a transaction.
const queryTimeout = `SELECT set_config('statement_timeout', $1, true)`
