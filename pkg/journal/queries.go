package journal

// queryAppend takes the campaign's advisory lock, then the writer floor's lock, then inserts.
// Everything else is a probe of one index. See migrations/00002_work.sql.
const queryAppend = `SELECT $1::text, seq, "position", event_id, duplicate FROM tidemark.append($1, $2::jsonb, $3)`

// unlessConverted ends an append: it returns no row and does not run the function where the server converts
// text. It is a condition of the plan, not of a row.
const unlessConverted = ` WHERE pg_client_encoding() = 'UTF8'`

const queryEncoding = `SELECT pg_client_encoding()`

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

const (
	// querySubjectKeys probes the unique index on subjects. Creating a key waits for transactions that
	// create the same one.
	querySubjectKeys = `SELECT subject, id, wrapped, wrapped_by,
			current_setting('transaction_isolation') = 'read committed'
		FROM tidemark.subject_keys($1::jsonb)`

	// queryKeys probes two primary keys for each id, and reads a value in the server's memory. A key that was
	// deleted may be back in its table: an old backup has it.
	queryKeys = `SELECT m.last_value, current_setting('transaction_isolation') = 'read committed', k.id::text, k.subject,
			k.wrapped, k.wrapped_by
		FROM tidemark.erased m LEFT JOIN tidemark.keys k ON k.id = ANY ($1::text[]::uuid[])
			AND NOT EXISTS (SELECT FROM tidemark.deleted_keys d WHERE d.id = k.id)`

	// querySomeKeys reads some keys of one wrapping key around a random place of the primary key, since appenders
	// choose the ids of keys.
	querySomeKeys = `WITH at AS MATERIALIZED (SELECT gen_random_uuid() AS id)
		SELECT k.id::text, k.subject, k.wrapped, k.wrapped_by FROM (
			(SELECT * FROM tidemark.keys WHERE id > (SELECT id FROM at) ORDER BY id LIMIT 100)
			UNION ALL (SELECT * FROM tidemark.keys WHERE id < (SELECT id FROM at) ORDER BY id DESC LIMIT 100)
		) k
		WHERE k.wrapped_by = $1 AND k.id <> $2::text::uuid ORDER BY random() LIMIT 8`

	queryMayReadKeys = `SELECT has_table_privilege('tidemark.keys', 'SELECT')`

	// queryOldKeys reads a range of the primary key.
	queryOldKeys = `SELECT id::text, subject, wrapped, wrapped_by FROM tidemark.keys
		WHERE id > $1::text::uuid AND wrapped_by <> $2 ORDER BY id LIMIT $3`

	// queryRewrap changes rows by the primary key, unless another call has been faster.
	queryRewrap = `SELECT tidemark.rewrap_keys($1::text[]::uuid[], $2, $3, $4)`
)
