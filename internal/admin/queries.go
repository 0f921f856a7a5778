package admin

// Each statement touches one row by primary key, except queryPruneKeys.
const (
	querySetTimeout = `SELECT set_config('statement_timeout', $1, true)`

	// querySetPatience sets lock_timeout to $1 milliseconds, unless the session's limit is lower.
	querySetPatience = `SELECT set_config('lock_timeout', CASE
		WHEN current_setting('lock_timeout')::interval BETWEEN '1 ms' AND make_interval(secs => $1::float8 / 1000)
		THEN current_setting('lock_timeout') ELSE $1::bigint::text END, true)`

	// queryTakeKey waits for a transaction that is taking the same key. A request may name a person, so only a
	// keyed hash of it is kept.
	queryTakeKey = `INSERT INTO tidemark.act_keys (actor, key, act, request) VALUES ($1, $2, $3, tidemark.request_hash($4))
		ON CONFLICT (actor, key) DO NOTHING`

	queryKey = `SELECT request = tidemark.request_hash($3), result FROM tidemark.act_keys WHERE actor = $1 AND key = $2`

	queryKeepResult = `UPDATE tidemark.act_keys SET result = $3::text::jsonb WHERE actor = $1 AND key = $2`

	// queryPruneKeys reads the index on at from the oldest entry.
	queryPruneKeys = `DELETE FROM tidemark.act_keys WHERE (actor, key) IN (SELECT k.actor, k.key FROM tidemark.act_keys k
		WHERE k.at < now() - interval '7 days' ORDER BY k.at LIMIT 1000 FOR UPDATE SKIP LOCKED)`
)
