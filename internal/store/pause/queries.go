package pause

const (
	// querySet writes one row by its primary key. It uses the transaction's time, like the campaign's lease.
	querySet = `INSERT INTO tidemark.pauses AS p (scope, consumer_group, name, reason, actor, paused_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, now(), coalesce(now() + $6::interval, 'infinity'))
		ON CONFLICT (scope, consumer_group, name) DO UPDATE
		SET reason = excluded.reason, actor = excluded.actor, paused_at = excluded.paused_at,
			expires_at = excluded.expires_at`

	// queryResume deletes one row by its primary key, and returns whether the pause was still in force.
	queryResume = `DELETE FROM tidemark.pauses WHERE scope = $1 AND consumer_group = $2 AND name = $3
		RETURNING expires_at > clock_timestamp()`

	queryRename = `UPDATE tidemark.pauses SET name = $3 WHERE scope = 'projection' AND consumer_group = $1 AND name = $2`

	// queryRegistered returns whether the target exists.
	queryRegistered = `SELECT CASE $1
		WHEN 'group' THEN EXISTS (SELECT FROM tidemark.consumer_groups g WHERE g.name = $2)
		WHEN 'projection' THEN EXISTS (SELECT FROM tidemark.projections p WHERE p.name = $3 AND p.consumer_group = $2)
		ELSE EXISTS (SELECT FROM tidemark.consumer_groups g WHERE g.name = $2)
			AND EXISTS (SELECT FROM tidemark.journal j WHERE j.campaign_id = $3) END`

	queryLog = `INSERT INTO tidemark.failure_log (act, consumer_group, projection, campaign_id, actor, reason)
		VALUES ($1, $2, nullif($3, ''), nullif($4, ''), $5, nullif($6, ''))`

	// queryList walks the primary key backwards from a place and stops at the limit.
	queryList = `SELECT consumer_group, CASE scope WHEN 'projection' THEN name ELSE '' END,
			CASE scope WHEN 'campaign' THEN name ELSE '' END, reason, actor, paused_at,
			coalesce(nullif(expires_at, 'infinity'), '0001-01-01 00:00Z')
		FROM tidemark.pauses
		WHERE ($1 = '' OR consumer_group = $1) AND expires_at > clock_timestamp()
			AND (scope, consumer_group, name) < ($2, $3, $4)
		ORDER BY scope DESC, consumer_group DESC, name DESC LIMIT nullif($5, 0)`
)

// queryFailed writes one row by its primary key and, unless the projection was already paused, one
// of the failure log. An operator's pause stays as it is.
const queryFailed = `WITH paused AS (
		INSERT INTO tidemark.pauses AS p (scope, consumer_group, name, reason, actor) VALUES ('projection', $1, $2, $3, $4)
		ON CONFLICT (scope, consumer_group, name) DO UPDATE
		SET reason = excluded.reason, actor = excluded.actor, paused_at = excluded.paused_at, expires_at = excluded.expires_at
		WHERE p.expires_at <= clock_timestamp()
		RETURNING 1
	)
	INSERT INTO tidemark.failure_log (act, consumer_group, projection, actor, reason) SELECT 'paused', $1, $2, $4, $3
		FROM paused`
