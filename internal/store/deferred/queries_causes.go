package deferred

const (
	// queryCauses steps along deferred_causes_idx, two probes a cause, and counts in the same index up
	// to $7 entries of each status. It locks nothing.
	queryCauses = `WITH RECURSIVE walk AS (
			SELECT CASE WHEN $3::boolean THEN $4 ELSE $1 END::text COLLATE "C" AS projection, CASE WHEN $3 THEN $5
				ELSE '' END::text COLLATE "C" AS fingerprint, 0 AS steps
			UNION ALL
			SELECT n.projection, n.fingerprint, w.steps + 1
			FROM walk w CROSS JOIN LATERAL (
				SELECT c.projection, c.fingerprint FROM (
					(SELECT d.projection, d.fingerprint FROM tidemark.deferred d WHERE d.status IN ('failed', 'dead')
						AND d.projection = w.projection AND d.fingerprint > w.fingerprint
						ORDER BY d.projection, d.fingerprint LIMIT 1)
					UNION ALL
					(SELECT d.projection, d.fingerprint FROM tidemark.deferred d WHERE d.status IN ('failed', 'dead')
						AND d.projection > w.projection
						ORDER BY d.projection, d.fingerprint LIMIT 1)
				) c ORDER BY c.projection, c.fingerprint LIMIT 1
			) n
			WHERE w.steps < $6::integer AND ($1 = '' OR n.projection = $1)
		)
		SELECT w.projection, w.fingerprint, f.pairs, x.pairs, coalesce(e.pairs, 0)::bigint, s.consumer_group,
			coalesce(s.error_class, ''), coalesce(s.error_code, ''), coalesce(s.error_message, ''),
			coalesce(s.event_type, ''), s.campaign_id, s.first_failed_at, s.last_failed_at
		FROM walk w CROSS JOIN LATERAL (
			SELECT count(*) AS pairs FROM (
				SELECT FROM tidemark.deferred d WHERE d.status = 'failed' AND d.projection = w.projection
					AND d.fingerprint = w.fingerprint LIMIT $7::integer
			) c
		) f CROSS JOIN LATERAL (
			SELECT count(*) AS pairs FROM (
				SELECT FROM tidemark.deferred d WHERE d.status = 'dead' AND d.projection = w.projection
					AND d.fingerprint = w.fingerprint LIMIT $7
			) c
		) x CROSS JOIN LATERAL (
			SELECT d.* FROM tidemark.deferred d WHERE d.status IN ('failed', 'dead') AND d.projection = w.projection
				AND d.fingerprint = w.fingerprint
			ORDER BY d.projection, d.fingerprint, d.status DESC, d.next_attempt_at DESC, d.next_seq DESC LIMIT 1
		) s
		LEFT JOIN (
			SELECT m.fingerprint, m.frequency * greatest(c.reltuples, 0) AS pairs
			FROM pg_stats t CROSS JOIN LATERAL unnest(t.most_common_vals::text::text[], t.most_common_freqs) AS m (fingerprint,
				frequency)
			JOIN pg_class c ON c.oid = 'tidemark.deferred'::regclass
			WHERE t.schemaname = 'tidemark' AND t.tablename = 'deferred' AND t.attname = 'fingerprint'
		) e ON e.fingerprint = w.fingerprint
		WHERE w.steps > 0 AND ($2 = '' OR w.fingerprint = $2) ORDER BY w.steps`

	// querySearch looks at the next $18 failed and dead pairs in the order of queryList, and answers
	// those that match; and, with true, the last that it has looked at, if there are so many.
	querySearch = `WITH next AS MATERIALIZED ` + nextFailures + `
		(SELECT false, ` + pairColumns + ` FROM next d WHERE d.status` + matches + pairOrder + ` LIMIT $17::bigint)
		UNION ALL
		(SELECT true, ` + pairColumns + ` FROM next d` + pairOrder + ` LIMIT 1 OFFSET $18 - 1)`

	nextFailures = `(
			SELECT d.* FROM (
				(SELECT d.* FROM tidemark.deferred d WHERE d.status = 'failed'
					AND 'failed' = ANY ($1::text[])` + afterPlace + pairOrder + ` LIMIT $18::integer) UNION
					ALL
				(SELECT d.* FROM tidemark.deferred d WHERE d.status = 'dead'
					AND 'dead' = ANY ($1)` + afterPlace + pairOrder + ` LIMIT $18)
			) d` + pairOrder + ` LIMIT $18
		)`

	afterPlace = ` AND (NOT $12::boolean OR (d.next_attempt_at, d.next_seq, d.campaign_id,
		d.projection) > ($13::timestamptz, $14::bigint, $15, $16))`
)
