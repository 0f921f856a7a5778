package scheduled

const (
	queryBegin  = `BEGIN ISOLATION LEVEL READ COMMITTED`
	queryCommit = `COMMIT`

	// queryFire reads the first entries of the index on attempt_at, tries the locks of their
	// campaigns, and appends. It waits for no lock, unless it is for one campaign. See
	// migrations/functions/scheduled_fire.sql.
	queryFire = `SELECT fired, refused, held, busy, more, after, after_id, coalesce(wait, '0')
		FROM tidemark.fire_scheduled($1, nullif($2, ''), coalesce($3::timestamptz, '-infinity'), $4,
			coalesce($5::text[], '{}'), nullif($6::interval, '0'), $7)`

	// queryReport counts up to $1 entries of the indexes, and some pages of a longer table.
	queryReport = `SELECT pending, estimated, overdue, coalesce(overdue_for, '0'), refused
		FROM tidemark.scheduled_report($1, $2)`
)

// Lists read an index in the order of their rows, and lock nothing.
const (
	columns = `SELECT s.id, s.campaign_id, s.due_at, s.attempt_at, jsonb_array_length(s.events), s.events -> 0 ->> 'type',
		s.scheduled_at, coalesce(s.scheduled_by, ''), s.attempts, coalesce(s.error, '') FROM tidemark.scheduled s`
	after = `(s.attempt_at, s.id) > (coalesce($1::timestamptz, '-infinity'), $2)`

	queryList        = columns + ` WHERE ` + after + ` ORDER BY s.attempt_at, s.id LIMIT $3`
	queryListRefused = columns + ` WHERE s.attempts > 0 AND ` + after + ` ORDER BY s.attempt_at, s.id LIMIT $3`
	queryListOf      = columns + ` WHERE s.campaign_id = $4 AND (s.attempts > 0 OR NOT $5) AND ` + after + `
		ORDER BY s.campaign_id, s.attempt_at, s.id LIMIT $3`

	// queryShow probes the primary key.
	queryShow = columns + ` WHERE s.id = $1`

	// queryEvents reads the events of one append.
	queryEvents = `SELECT e.id, e.type, coalesce(e.version, 1), coalesce(e.intent, 'projection_and_replay'),
		coalesce(e.aggregate_type, ''), coalesce(e.aggregate_id, ''), coalesce(e.actor, ''), e.tags,
		CASE WHEN NOT $2 AND e.bytes < 4194304 THEN e.payload END,
		CASE WHEN NOT $2 AND e.bytes < 4194304 THEN e.metadata END, e.occurred_at
		FROM (
			SELECT e.*,
				sum(coalesce(pg_column_size(e.payload), 0) + coalesce(pg_column_size(e.metadata), 0)) OVER (ORDER BY e.ord) AS bytes
			FROM tidemark.scheduled s CROSS JOIN LATERAL ROWS FROM (jsonb_to_recordset(s.events) AS (id uuid, type text,
				version integer, intent text, aggregate_type text, aggregate_id text, actor text, tags text[], payload jsonb,
				metadata jsonb, occurred_at timestamptz)) WITH ORDINALITY AS e (id, type, version, intent, aggregate_type,
				aggregate_id, actor, tags, payload, metadata, occurred_at, ord)
			WHERE s.id = $1
		) AS e ORDER BY e.ord LIMIT 100`

	// queryCancel deletes one row by its primary key, and writes the log of operators.
	queryCancel = `SELECT tidemark.cancel_for_operator($1, $2, $3, $4, $5, $6)`

	// queryReschedule updates one row by its primary key, and writes the log of operators.
	queryReschedule = `SELECT moved, coalesce(was_due_at, '0001-01-01 00:00Z')
		FROM tidemark.reschedule_for_operator($1, $2::timestamptz, $3, $4, $5, $6, $7)`
)
