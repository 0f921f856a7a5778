package projector

const (
	// queryBegin opens the transaction of a group. It is pipelined with the reads that follow.
	queryBegin  = `BEGIN ISOLATION LEVEL READ COMMITTED`
	queryCommit = `COMMIT`

	// querySettings applies to the transaction: where projections' tables are, that statements go by key (the plan of one prepared while its
	// table was empty must not become a scan when it is not; a scan that cannot be avoided looks so dear then that it would be compiled; campaigns come once each, so remembering them is work for nothing), and
	// that the server ends it if this process stops in the middle.
	querySettings = `SELECT set_config('search_path', $1, true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true), set_config('enable_memoize', 'off', true),
		set_config('idle_in_transaction_session_timeout', $2, true)`

	// queryRegistry takes the registry's lock in shared mode: the registry does not change while the transaction is open. Applies never wait for each
	// other; they wait for a registration, which is short.
	queryRegistryShared = `SELECT pg_advisory_xact_lock_shared(tidemark.lock_key(32003, 0))`

	// queryRegistryExclusive waits until the applies that began under the registry as it was have ended.
	queryRegistryExclusive = `SELECT pg_advisory_xact_lock(tidemark.lock_key(32003, 0))`

	// queryRegistry reads a table of one row a projection.
	queryRegistry = `SELECT name, version, state, consumer_group, schema_name, table_names FROM tidemark.projections WHERE consumer_group = $1 OR name = ANY ($2)`

	// queryPairs probes the primary key of deferred once for each campaign. What else it asks for stands outside, so that no other index will do.
	queryPairs = `SELECT d.campaign_id, d.projection, d.next_seq
		FROM unnest($1::text[]) AS c (campaign_id) CROSS JOIN LATERAL (
			SELECT * FROM tidemark.deferred d WHERE d.campaign_id = c.campaign_id OFFSET 0
		) d
		WHERE d.consumer_group = $2`

	// queryDuePairs is queryPairs for those whose retry is due.
	queryDuePairs = `SELECT d.campaign_id, d.projection, d.next_seq
		FROM unnest($1::text[]) AS c (campaign_id) CROSS JOIN LATERAL (
			SELECT * FROM tidemark.deferred d WHERE d.campaign_id = c.campaign_id OFFSET 0
		) d
		WHERE d.consumer_group = $2 AND d.projection = ANY ($3) AND d.status IN ('failed', 'rebuilding') AND d.next_attempt_at <= clock_timestamp()
		ORDER BY d.campaign_id, d.projection`

	// queryFilePairs files pairs of campaigns that move without the projection. The campaigns' leases are held, so nobody else files them.
	queryFilePairs = `INSERT INTO tidemark.deferred (campaign_id, projection, consumer_group, next_seq, status, attempt_count, next_attempt_at)
		SELECT u.campaign_id, u.projection, $1, u.next_seq, 'rebuilding', 0, now()
		FROM unnest($2::text[], $3::text[], $4::bigint[]) AS u (campaign_id, projection, next_seq)
		ORDER BY u.campaign_id, u.projection
		ON CONFLICT DO NOTHING`

	// queryDefer writes one pair, under its campaign's lease. A first failure of an event counts one, whatever came before it. $10 is the first wait
	// in seconds, $11 the longest; the factor is two, the jitter a tenth.
	queryDefer = `INSERT INTO tidemark.deferred AS d (campaign_id, projection, consumer_group, next_seq, status, attempt_count, next_attempt_at,
			error_class, error_message, error_stack, first_failed_at, last_failed_at)
		VALUES ($1, $2, $3, $4, 'failed', 1, clock_timestamp() + make_interval(secs => $8::float8 * $10::float8), $5, $6, $7, now(), now())
		ON CONFLICT (campaign_id, projection) DO UPDATE SET
			next_seq = excluded.next_seq, status = 'failed',
			attempt_count = CASE WHEN d.next_seq = excluded.next_seq THEN d.attempt_count + 1 ELSE 1 END,
			next_attempt_at = clock_timestamp() + make_interval(secs => $8::float8 * least($9::float8,
				$10::float8 * power(2, CASE WHEN d.next_seq = excluded.next_seq THEN least(d.attempt_count, 30) ELSE 0 END))),
			error_class = excluded.error_class, error_message = excluded.error_message, error_stack = excluded.error_stack,
			first_failed_at = CASE WHEN d.next_seq = excluded.next_seq THEN coalesce(d.first_failed_at, now()) ELSE now() END,
			last_failed_at = now()`

	// queryProgress moves pairs that have not caught up yet; queryCaughtUp removes those that have.
	queryProgress = `UPDATE tidemark.deferred d SET next_seq = u.next_seq,
			status = CASE WHEN d.status = 'failed' AND d.next_seq < u.next_seq THEN 'rebuilding' ELSE d.status END
		FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u (campaign_id, projection, next_seq)
		WHERE d.campaign_id = u.campaign_id AND d.projection = u.projection`
	queryCaughtUp = `DELETE FROM tidemark.deferred d USING unnest($1::text[], $2::text[]) AS u (campaign_id, projection)
		WHERE d.campaign_id = u.campaign_id AND d.projection = u.projection`

	// queryInsertProjection and those below are registration's, under the registry's lock.
	queryInsertProjection = `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state) VALUES ($1, $2, $3, $4, $5, 'joining')`
	queryTables           = `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') ORDER BY c.relname`

	// queryFileMoved files, for a joining projection, up to $4 campaigns after $3 that have moved without it. It answers the last campaign it came to.
	queryFileMoved = `WITH moved AS MATERIALIZED (
			SELECT l.campaign_id, l.checkpoint FROM tidemark.leases l
			WHERE l.consumer_group = $1 AND l.campaign_id > $3 ORDER BY l.consumer_group, l.campaign_id LIMIT $4
		), filed AS (
			INSERT INTO tidemark.deferred (campaign_id, projection, consumer_group, next_seq, status, attempt_count, next_attempt_at)
			SELECT m.campaign_id, $2, $1, 1, 'rebuilding', 0, now() FROM moved m WHERE m.checkpoint > 0
			ON CONFLICT DO NOTHING
		)
		SELECT coalesce(max(campaign_id), ''), count(*) FROM moved`
	queryActivate = `UPDATE tidemark.projections SET state = 'active' WHERE name = $1`
)
