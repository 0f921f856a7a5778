package journal

// queryAppend takes the campaign's advisory lock, then the writer floor's lock, then inserts.
// Everything else is a probe of one index. See migrations/00002_work.sql.
const queryAppend = `SELECT $1::text, seq, "position", event_id, duplicate FROM tidemark.append($1, $2::jsonb, $3)`

// queryAppendAll takes the advisory locks of all campaigns in one order before it appends to the first.
const queryAppendAll = `SELECT campaign_id, seq, "position", event_id, duplicate FROM tidemark.append_all($1::jsonb)`

const (
	// queryAppendIf takes the advisory locks of the events and of the condition in one order, then
	// the campaigns' locks. Then it checks and appends. See migrations/00008_conditions.sql.
	queryAppendIf = `SELECT campaign_id, seq, "position", event_id, duplicate
		FROM tidemark.append_if($1::jsonb, $2::jsonb)`

	// queryAppendIfKeeping is queryAppendIf that returns a match as a row without an id and keeps its locks.
	queryAppendIfKeeping = `SELECT campaign_id, seq, "position", event_id, duplicate
		FROM tidemark.append_if($1::jsonb, $2::jsonb, true)`

	// queryCommit begins another transaction, so the caller can end the one it opened.
	queryCommit = `COMMIT AND CHAIN`

	// queryAppendAt inserts one row and locks nothing.
	queryAppendAt = `SELECT tidemark.append_at($1, $2::timestamptz, $3::jsonb)`

	// queryCancel deletes one row by its primary key.
	queryCancel = `SELECT tidemark.cancel_scheduled($1)`
)
