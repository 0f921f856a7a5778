package scheduled

const (
	queryBegin  = `BEGIN ISOLATION LEVEL READ COMMITTED`
	queryCommit = `COMMIT`

	// queryFire reads the first entries of the index on attempt_at, tries the locks of their
	// campaigns, and appends. It waits for no lock, unless it is for one campaign. See
	// migrations/00012_scheduled.sql.
	queryFire = `SELECT fired, refused, held, busy, more, after, after_id, coalesce(wait, '0')
		FROM tidemark.fire_scheduled($1, nullif($2, ''), coalesce($3::timestamptz, '-infinity'), $4,
			coalesce($5::text[], '{}'), nullif($6::interval, '0'), $7)`

	// queryReport counts up to $1 entries of the indexes, and some pages of a longer table.
	queryReport = `SELECT pending, estimated, overdue, coalesce(overdue_for, '0'), refused
		FROM tidemark.scheduled_report($1, $2)`
)
