package failed

// The projector's statements. They run under the lease of their campaigns, so they meet only
// operators' short transactions, which change when a campaign is retried. Each row is found by one
// probe of the primary key. It is written by ctid, which stays valid while the row is locked.
const (
	// queryStandings probes the primary key once per campaign. Other conditions stand outside the
	// lateral, so Postgres chooses no other index.
	queryStandings = `SELECT d.campaign_id, d.projection, d.next_seq, d.last_failed_at IS NOT NULL, d.reset
		FROM unnest(coalesce($1::text[], tidemark.claimed_campaigns())) AS c (campaign_id) CROSS JOIN LATERAL (
			SELECT * FROM tidemark.failed d WHERE d.campaign_id = c.campaign_id OFFSET 0
		) d
		WHERE d.consumer_group = $2`

	// queryDue is queryStandings for due campaigns of projections that are not paused. Dead ones are
	// due at 'infinity'.
	queryDue = `SELECT d.campaign_id, d.projection, d.next_seq, d.last_failed_at IS NOT NULL, d.reset
		FROM unnest($1::text[]) AS c (campaign_id) CROSS JOIN LATERAL (
			SELECT * FROM tidemark.failed d WHERE d.campaign_id = c.campaign_id OFFSET 0
		) d
		WHERE d.consumer_group = $2 AND d.next_attempt_at <= clock_timestamp() AND d.projection = ANY (ARRAY(
			SELECT p.name FROM unnest($3::text[]) AS p (name)
			WHERE NOT EXISTS (SELECT FROM tidemark.pauses x WHERE x.scope = 'projection' AND x.consumer_group = $2
				AND x.name = p.name AND x.expires_at > clock_timestamp() OFFSET 0)))
		ORDER BY d.campaign_id, d.projection`

	// queryKeys reads the index of rows that are due, then that of dead ones.
	queryKeys = `(SELECT d.campaign_id, d.projection, d.next_seq, d.last_failed_at IS NOT NULL, d.reset
			FROM tidemark.failed d WHERE d.consumer_group = $1 AND d.projection = $2 AND d.next_attempt_at < 'infinity'
			ORDER BY d.consumer_group, d.projection, d.next_attempt_at LIMIT $3)
		UNION ALL
		(SELECT d.campaign_id, d.projection, d.next_seq, true, d.reset
			FROM tidemark.failed d WHERE d.consumer_group = $1 AND d.projection = $2 AND d.status = 'dead'
			LIMIT $3)`

	// queryDueKeys reads a range of the index of rows that are due, in its order.
	queryDueKeys = `SELECT d.campaign_id, d.projection, d.next_seq, d.last_failed_at IS NOT NULL, d.reset,
			d.next_attempt_at
		FROM tidemark.failed d WHERE d.consumer_group = $1 AND d.projection = $2
			AND (d.next_attempt_at, d.campaign_id) > ($3::timestamptz, $4) AND d.next_attempt_at <= clock_timestamp()
			AND d.next_attempt_at < 'infinity'
		ORDER BY d.consumer_group, d.projection, d.next_attempt_at, d.campaign_id LIMIT $5`

	// queryResolvedKeys reads a range of the index on projection.
	queryResolvedKeys = `SELECT r.campaign_id, r.seq FROM tidemark.resolutions r WHERE r.projection = $1`

	// queryFile files campaigns that move without the projection. Only the holder of their leases files them.
	queryFile = `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
		next_attempt_at, reset)
		SELECT u.campaign_id, u.projection, $1, u.next_seq, 'catching_up', 0, now() + make_interval(secs => u.wait), u.reset
		FROM unnest($2::text[], $3::text[], $4::bigint[], $5::boolean[], $6::float8[]) AS u (campaign_id, projection,
			next_seq, reset, wait)
		ORDER BY u.campaign_id, u.projection
		ON CONFLICT DO NOTHING`

	// queryFileMoved files, for a joining projection, up to $4 campaigns after $3 that have moved
	// without it and that a rebuild has not copied. It walks the leases' primary key through the gaps
	// between copied ranges, and returns the last campaign it read.
	queryFileMoved = `WITH gaps AS MATERIALIZED (
			SELECT greatest(g.after, $3) AS after, g.until FROM (
				SELECT lag(r.last, 1, '') OVER (ORDER BY r.last) AS after, r.first AS until FROM tidemark.rebuild_ranges r
					WHERE r.projection = $2
				UNION ALL
				SELECT (SELECT coalesce(max(r.last), '') FROM tidemark.rebuild_ranges r WHERE r.projection = $2),
					(SELECT max(l.campaign_id) FROM tidemark.leases l WHERE l.consumer_group = $1)
			) g WHERE g.after < g.until AND g.until > $3
		), moved AS MATERIALIZED (
			SELECT l.campaign_id, l.checkpoint FROM gaps g CROSS JOIN LATERAL (
				SELECT l.campaign_id, l.checkpoint FROM tidemark.leases l
				WHERE l.consumer_group = $1 AND l.campaign_id > g.after AND l.campaign_id <= g.until
					ORDER BY l.consumer_group, l.campaign_id LIMIT $4
			) l ORDER BY l.campaign_id LIMIT $4
		), filed AS (
			INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
				next_attempt_at)
			SELECT m.campaign_id, $2, $1, 1, 'catching_up', 0, now() FROM moved m WHERE m.checkpoint > 0
			ON CONFLICT DO NOTHING
		)
		SELECT coalesce(max(campaign_id), ''), count(*) FROM moved`

	// forgotten clears the details of a failure.
	forgotten = `projection_version = NULL, event_id = NULL, event_type = NULL, error_class = NULL, error_code = NULL,
				error_message = NULL, error_stack = NULL, fingerprint = NULL, worker = NULL, first_failed_at = NULL,
				last_failed_at = NULL`

	// erasedKey is the key of an old row, unless the event at which it failed has been erased meanwhile: the key
	// may be a name, and the erasure has taken it from the log.
	erasedKey = `CASE WHEN EXISTS (SELECT FROM tidemark.erased_events x JOIN tidemark.projections p ON p.scope = 'journal'
				WHERE x."position" = o.next_seq AND p.name = split_part(o.projection, '~', 1))
			THEN 'erased' ELSE o.campaign_id END`

	// recovered logs the old rows that had failed.
	recovered = `)
		INSERT INTO tidemark.failure_log (act, consumer_group, projection, projection_version, campaign_id, seq,
			event_id, event_type, attempt)
		SELECT 'recovered', o.consumer_group, o.projection, o.projection_version, ` + erasedKey + `, o.next_seq, o.event_id,
			o.event_type, o.attempt_count
		FROM old o WHERE o.last_failed_at IS NOT NULL`

	// queryMove moves campaigns forward. The failure's details belonged to the event before. Unless $4, a reset
	// is done.
	queryMove = `WITH old AS MATERIALIZED (
			SELECT d.*, u.next_seq AS reached, u.reset AS resets
			FROM unnest($1::text[], $2::text[], $3::bigint[], $4::boolean[])
				AS u (campaign_id, projection, next_seq, reset) CROSS JOIN LATERAL (
				SELECT d.ctid AS place, d.* FROM tidemark.failed d WHERE d.campaign_id = u.campaign_id
					AND d.projection = u.projection FOR UPDATE
			) d
			WHERE d.next_seq < u.next_seq
		), moved AS (
			UPDATE tidemark.failed d SET next_seq = o.reached, reset = d.reset AND o.resets, status = 'catching_up',
				attempt_count = 0, next_attempt_at = least(d.next_attempt_at, now()), ` + forgotten + `
			FROM old o WHERE d.ctid = o.place
		` + recovered

	// queryFinish removes campaigns that have caught up.
	queryFinish = `WITH old AS MATERIALIZED (
			SELECT d.*
			FROM unnest($1::text[], $2::text[]) AS u (campaign_id, projection) CROSS JOIN LATERAL (
				SELECT d.ctid AS place, d.* FROM tidemark.failed d WHERE d.campaign_id = u.campaign_id
					AND d.projection = u.projection FOR UPDATE
			) d
		), gone AS (
			DELETE FROM tidemark.failed d WHERE d.ctid = ANY (ARRAY(SELECT o.place FROM old o))
		` + recovered

	// queryDefer counts on from the current row, so it respects a recent act of an operator: a count
	// reset to zero becomes one. $14 makes the campaign dead at once, $15 is the last attempt, $16 are
	// the waits after each. With $18 the failure does not count and is logged once; the campaign waits
	// for the first of the waits or a tenth of the time since the first failure, up to the last of the
	// waits, whichever is longer. A reset is done in the same transaction, unless it is what failed.
	queryDefer = `WITH old AS MATERIALIZED (
			SELECT * FROM tidemark.failed d WHERE d.campaign_id = $4 AND d.projection = $2 FOR UPDATE
		), tried AS (
			SELECT coalesce(o.attempt_count, 0) + (NOT $18::boolean)::integer AS attempt,
				coalesce(o.first_failed_at, now()) AS first_failed_at,
				coalesce($18 AND o.error_class = $8, false) AS again
			FROM (SELECT) AS one LEFT JOIN old o ON o.next_seq = $5
		), verdict AS (
			SELECT t.*, CASE WHEN $14::boolean OR t.attempt >= $15::integer THEN 'dead' ELSE 'failed' END AS status
			FROM tried t
		), decision AS (
			SELECT v.*, coalesce(clock_timestamp() + make_interval(secs => CASE
				WHEN v.status = 'dead' THEN NULL
				WHEN $18 THEN greatest(($16::float8[])[1], least(($16::float8[])[cardinality($16::float8[])],
					extract(epoch FROM now() - v.first_failed_at) / 10))
				ELSE ($16::float8[])[least(v.attempt, cardinality($16::float8[]))] END), 'infinity') AS next_attempt_at
			FROM verdict v
		), pair AS (
			INSERT INTO tidemark.failed AS d (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
				next_attempt_at, projection_version,
				event_id, event_type, error_class, error_code, error_message, error_stack, fingerprint, worker, first_failed_at,
					last_failed_at)
			SELECT $4, $2, $1, $5, c.status, c.attempt, c.next_attempt_at, $3, $6, $7, $8, $9, $10, $11, $12, $13,
				c.first_failed_at, now()
			FROM decision c
			ON CONFLICT (campaign_id, projection) DO UPDATE SET
				next_seq = excluded.next_seq, reset = d.reset AND $17, status = excluded.status,
					attempt_count = excluded.attempt_count, next_attempt_at = excluded.next_attempt_at,
				projection_version = excluded.projection_version,
					event_id = excluded.event_id, event_type = excluded.event_type,
				error_class = excluded.error_class, error_code = excluded.error_code, error_message = excluded.error_message,
					error_stack = excluded.error_stack,
				fingerprint = excluded.fingerprint, worker = excluded.worker, first_failed_at = excluded.first_failed_at,
					last_failed_at = excluded.last_failed_at
		), logged AS (
			INSERT INTO tidemark.failure_log (act, consumer_group, projection, projection_version, campaign_id, seq, event_id,
				event_type, attempt,
				error_class, error_code, error_message, error_stack, fingerprint, worker)
			SELECT l.act, $1, $2, l.version, l.key, l.seq, l.event_id, l.event_type, l.attempt, l.class, l.code, l.message,
				l.stack, l.fingerprint, l.worker
			FROM (
				SELECT 'recovered', ` + erasedKey + `, o.projection_version, o.next_seq, o.event_id, o.event_type,
					o.attempt_count, NULL, NULL, NULL, NULL, NULL, NULL
				FROM old o WHERE o.next_seq < $5 AND o.last_failed_at IS NOT NULL
				UNION ALL
				SELECT CASE WHEN $9 = 'crash' AND c.status = 'dead' THEN 'crashed' ELSE c.status END, $4, $3, $5, $6, $7,
					c.attempt, $8, $9, $10, $11, $12, $13
				FROM decision c WHERE NOT c.again
			) AS l (act, key, version, seq, event_id, event_type, attempt, class, code, message, stack, fingerprint, worker)
			ORDER BY l.seq
		)
		SELECT c.status, c.attempt, nullif(c.next_attempt_at, 'infinity') FROM decision c`

	// querySkip updates a campaign only if it stands at the skipped event.
	querySkip = `WITH old AS MATERIALIZED (
			SELECT d.ctid AS place, d.attempt_count FROM tidemark.failed d
			WHERE d.campaign_id = $4 AND d.projection = $2 AND d.next_seq = $5 FOR UPDATE
		), pair AS (
			UPDATE tidemark.failed d SET attempt_count = 0, first_failed_at = NULL, last_failed_at = NULL FROM old o
				WHERE d.ctid = o.place
		)
		INSERT INTO tidemark.failure_log (act, consumer_group, projection, projection_version, campaign_id, seq, event_id,
			event_type, attempt,
			error_class, error_code, error_message, error_stack, fingerprint, worker, reason)
		VALUES ('skipped', $1, $2, $3, $4, $5, $6, $7, coalesce((SELECT o.attempt_count FROM old o), 0) + 1, $8, $9, $10,
			$11, $12, $13, $14)`
)

const (
	// queryCauses steps along failed_causes_idx, two probes per cause, and reads up to CauseBound
	// rows of each status by the same index. A cause given by both names is read at once. The bound
	// is written out, so that the generic plan knows it. It locks nothing.
	queryCauses = `WITH RECURSIVE walk AS (
			SELECT CASE WHEN $3::boolean AND ($1::text = '' OR $2::text = '') THEN $4::text
					ELSE $1 END COLLATE "C" AS projection,
				CASE WHEN $3 AND ($1 = '' OR $2 = '') THEN $5::text ELSE $2 END COLLATE "C" AS fingerprint,
				CASE WHEN $1 <> '' AND $2 <> '' AND (NOT $3 OR ($4 COLLATE "C", $5 COLLATE "C") < ($1, $2)) THEN 1
					ELSE 0 END AS steps
			UNION ALL
			SELECT n.projection, n.fingerprint, w.steps + 1
			FROM walk w CROSS JOIN LATERAL (
				SELECT c.projection, c.fingerprint FROM (
					(SELECT d.projection, d.fingerprint FROM tidemark.failed d WHERE d.status IN ('failed', 'dead')
						AND d.projection = w.projection AND d.fingerprint > w.fingerprint
						ORDER BY d.projection, d.fingerprint LIMIT 1)
					UNION ALL
					(SELECT d.projection, d.fingerprint FROM tidemark.failed d WHERE d.status IN ('failed', 'dead')
						AND d.projection > w.projection
						ORDER BY d.projection, d.fingerprint LIMIT 1)
				) c ORDER BY c.projection, c.fingerprint LIMIT 1
			) n
			WHERE ($1 = '' OR $2 = '') AND w.steps < $6::integer AND ($1 = '' OR n.projection = $1)
		)
		SELECT w.projection, w.fingerprint, f.pairs, x.pairs, s.consumer_group,
			coalesce(s.error_class, ''), coalesce(s.error_code, ''), coalesce(s.error_message, ''),
			coalesce(s.event_type, ''), s.campaign_id, least(f.first, x.first), greatest(f.last, x.last)
		FROM walk w CROSS JOIN LATERAL (
			SELECT count(*) AS pairs, min(c.first_failed_at) AS first, max(c.last_failed_at) AS last FROM (
				SELECT d.first_failed_at, d.last_failed_at FROM tidemark.failed d
				WHERE d.status = 'failed' AND d.projection = w.projection AND d.fingerprint = w.fingerprint LIMIT 100
			) c
		) f CROSS JOIN LATERAL (
			SELECT count(*) AS pairs, min(c.first_failed_at) AS first, max(c.last_failed_at) AS last FROM (
				SELECT d.first_failed_at, d.last_failed_at FROM tidemark.failed d
				WHERE d.status = 'dead' AND d.projection = w.projection AND d.fingerprint = w.fingerprint LIMIT 100
			) c
		) x CROSS JOIN LATERAL (
			SELECT d.* FROM tidemark.failed d WHERE d.status IN ('failed', 'dead') AND d.projection = w.projection
				AND d.fingerprint = w.fingerprint
			ORDER BY d.projection, d.fingerprint, d.status DESC, d.next_attempt_at DESC, d.next_seq DESC LIMIT 1
		) s
		WHERE w.steps > 0 AND ($2 = '' OR w.fingerprint = $2) ORDER BY w.steps`
)

// querySkipped reads each campaign's log by its index. It leaves out skipped events that were replayed later.
const querySkipped = `SELECT DISTINCT s.campaign_id, s.seq
	FROM unnest($2::text[]) AS c (campaign_id) CROSS JOIN LATERAL (
		SELECT f.id, f.campaign_id, f.seq FROM tidemark.failure_log f
		WHERE f.campaign_id = c.campaign_id AND f.projection = $1 AND f.act = 'skipped' OFFSET 0
	) s
	WHERE NOT EXISTS (
		SELECT FROM tidemark.failure_log r
		WHERE r.campaign_id = s.campaign_id AND r.projection = $1 AND r.id > s.id AND r.act = 'replayed' AND r.seq <= s.seq
	)
	ORDER BY s.campaign_id, s.seq`

const queryCountSkipped = `SELECT count(DISTINCT (f.campaign_id, f.seq)) FROM tidemark.failure_log f
	WHERE f.projection = $1 AND f.act = 'skipped'`

const queryWrite = `INSERT INTO tidemark.failure_log (act, consumer_group, projection, actor, reason)
	VALUES ($1, $2, nullif($3, ''), $4, nullif($5, ''))`

const (
	// queryPrune walks the index on at from its old end and stops at the limit. It tries an advisory
	// lock without waiting, so one replica prunes at a time.
	queryPrune = `DELETE FROM tidemark.failure_log WHERE (SELECT pg_try_advisory_xact_lock(tidemark.lock_key(32005, 0)))
		AND id = ANY (ARRAY(SELECT l.id FROM tidemark.failure_log l
			WHERE l.at < now() - $1::interval ORDER BY l.at LIMIT $2))`

	// querySearch reads the next $16 failed and dead campaigns in the order of queryList and returns
	// the matches. If it read that many, it also returns the last one, with true.
	querySearch = `WITH next AS MATERIALIZED ` + nextFailures + `
		(SELECT false, ` + campaignColumns + ` FROM next d WHERE d.status` + matches + campaignOrder + ` LIMIT $15::bigint)
		UNION ALL
		(SELECT true, ` + campaignColumns + ` FROM next d` + campaignOrder + ` LIMIT 1 OFFSET $16 - 1)`
)

// queryCountOutcomes probes the primary key once per campaign. It locks nothing.
const queryCountOutcomes = `SELECT count(*) FILTER (WHERE d.next_seq IS NULL OR d.next_seq > n.next_seq),
		count(*) FILTER (WHERE d.next_seq <= n.next_seq AND (d.attempt_count > 0 OR d.status = 'dead'))
	FROM unnest($1::text[], $2::text[], $3::bigint[]) AS n (campaign_id, projection, next_seq)
	LEFT JOIN LATERAL (
		SELECT d.next_seq, d.attempt_count, d.status FROM tidemark.failed d
		WHERE d.campaign_id = n.campaign_id AND d.projection = n.projection OFFSET 0
	) d ON true`

const (
	// queryRename also renames the log's records of skipped events. Dead and due campaigns each have
	// an index by projection, so other projections' rows cost nothing.
	queryRename = `WITH dead AS (
			UPDATE tidemark.failed SET projection = $3
			WHERE consumer_group = $1 AND projection = $2 AND status = 'dead'
		), due AS (
			UPDATE tidemark.failed SET projection = $3
			WHERE consumer_group = $1 AND projection = $2 AND next_attempt_at < 'infinity'
		)
		UPDATE tidemark.failure_log SET projection = $3 WHERE consumer_group = $1 AND projection = $2
			AND act IN ('skipped', 'replayed')`

	// queryDrop waits for an act that is writing a row. It may leave that row to the next call.
	queryDrop = `WITH dead AS MATERIALIZED (
			SELECT d.ctid AS place FROM tidemark.failed d
			WHERE d.consumer_group = $1 AND d.projection = $2 AND d.status = 'dead' LIMIT $3 FOR UPDATE
		), due AS MATERIALIZED (
			SELECT d.ctid AS place FROM tidemark.failed d
			WHERE d.consumer_group = $1 AND d.projection = $2 AND d.next_attempt_at < 'infinity' LIMIT $3 FOR UPDATE
		), chosen AS MATERIALIZED (
			SELECT place FROM dead UNION SELECT place FROM due
		), gone AS (
			DELETE FROM tidemark.failed d WHERE d.ctid = ANY (ARRAY(SELECT c.place FROM chosen c))
		)
		SELECT count(*) FROM chosen`

	// queryReport counts up to $1 rows, and reads $2 pages beyond that (migrations/functions/status.sql).
	queryReport = `SELECT consumer_group, projection, status, class, pairs, estimated, since
		FROM tidemark.failed_report($1, $2)`
)
