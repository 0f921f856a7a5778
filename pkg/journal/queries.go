package journal

// queryAppend takes the campaign's advisory lock, then the writer floor's lock, then inserts.
// Everything else is a probe of one index. See migrations/functions/append.sql.
const queryAppend = `SELECT $1::text, seq, "position", event_id, duplicate FROM tidemark.append($1, $2::jsonb, $3)`

// unlessConverted ends an append: it returns no row and does not run the function where the server converts
// text. It is a condition of the plan, not of a row.
const unlessConverted = ` WHERE pg_client_encoding() = 'UTF8'`

const queryEncoding = `SELECT pg_client_encoding()`

// queryAppendAll takes the advisory locks of all campaigns in one order before it appends to the first.
const queryAppendAll = `SELECT campaign_id, seq, "position", event_id, duplicate FROM tidemark.append_all($1::jsonb)`

const (
	// queryAppendIf takes the advisory locks of the events and of the condition in one order, then
	// the campaigns' locks. Then it checks and appends. See migrations/functions/conditions.sql.
	queryAppendIf = `SELECT campaign_id, seq, "position", event_id, duplicate
		FROM tidemark.append_if($1::jsonb, $2::jsonb)`

	// queryAppendIfKeeping is queryAppendIf that returns a match as a row without an id and keeps its locks.
	queryAppendIfKeeping = `SELECT campaign_id, seq, "position", event_id, duplicate
		FROM tidemark.append_if($1::jsonb, $2::jsonb, true)`

	// queryIDs reads a few rows from the primary key.
	queryIDs = `SELECT seq, "position", event_id FROM tidemark.journal
		WHERE campaign_id = $1 AND seq > $2 ORDER BY seq LIMIT 64`

	// queryCommit begins another transaction, so the caller can end the one it opened.
	queryCommit = `COMMIT AND CHAIN`

	// queryAppendAt inserts one row and locks nothing. It waits only for a repeat of itself, up to 10 s.
	queryAppendAt = `SELECT coalesce(id, 0), due_at, duplicate FROM tidemark.schedule($1, $2::timestamptz, $3::jsonb)`

	// queryCancel deletes one row by its primary key.
	queryCancel = `SELECT tidemark.cancel_scheduled($1)`

	// queryReschedule locks and updates one row by its primary key.
	queryReschedule = `SELECT moved, due_at, was_due_at FROM tidemark.reschedule($1, $2::timestamptz)`
)
