package failed

// Resolutions. Acts lock rows of the registry, then the campaigns' leases, then pairs. Reads walk the primary key.
const (
	// queryKeepSets locks a projection's rows of the registry, or all: what begins a rebuild, or
	// exchanges or withdraws its tables, waits for the transaction. Acts do not wait for each other.
	queryKeepSets = `SELECT p.consumer_group FROM tidemark.projections p
		WHERE $1 = '' OR p.name IN ($1, $1 || '~next', $1 || '~previous') ORDER BY p.name FOR SHARE`

	// queryBeyond answers which sets of tables have gone past events: rows of theirs may hold what the
	// event did, or lack it. A set that is joining has no rows yet.
	queryBeyond = `SELECT DISTINCT p.consumer_group, p.name, e.campaign_id
		FROM unnest($1::text[], $2::text[], $3::bigint[]) AS e (campaign_id, projection, seq)
		CROSS JOIN LATERAL unnest(ARRAY[e.projection, e.projection || '~next', e.projection || '~previous']) AS s (name)
		CROSS JOIN LATERAL (
			SELECT p.name, p.consumer_group, p.state FROM tidemark.projections p WHERE p.name = s.name
				AND p.state <> 'requested' OFFSET 0
		) p
		LEFT JOIN LATERAL (
			SELECT d.next_seq FROM tidemark.deferred d WHERE d.campaign_id = e.campaign_id AND d.projection = p.name OFFSET 0
		) d ON true
		WHERE CASE WHEN d.next_seq IS NOT NULL THEN d.next_seq > e.seq
			ELSE p.state <> 'joining' AND EXISTS (
				SELECT FROM tidemark.leases l WHERE l.consumer_group = p.consumer_group AND l.campaign_id = e.campaign_id
					AND l.checkpoint >= e.seq) END
		ORDER BY p.consumer_group, p.name, e.campaign_id`

	// querySiblings locks the pairs of the projections' other sets that have failed at the same events.
	querySiblings = `SELECT` + standing + `
		FROM unnest($1::text[], $2::text[], $3::bigint[]) AS e (campaign_id, projection, seq)
		CROSS JOIN LATERAL unnest(ARRAY[e.projection, e.projection || '~next', e.projection || '~previous']) AS s (name)
		CROSS JOIN LATERAL (
			SELECT * FROM tidemark.deferred d
			WHERE d.campaign_id = e.campaign_id AND d.projection = s.name AND d.next_seq = e.seq
				AND d.status IN ('failed', 'dead')
			FOR UPDATE
		) d`

	queryInsertResolutions = `INSERT INTO tidemark.resolutions (campaign_id, projection, seq, actor, reason)
		SELECT e.campaign_id, e.projection, e.seq, $4, $5
		FROM unnest($1::text[], $2::text[], $3::bigint[]) AS e (campaign_id, projection, seq)
			ORDER BY e.campaign_id, e.projection, e.seq
		ON CONFLICT DO NOTHING`

	queryUnresolve = `WITH gone AS (
			DELETE FROM tidemark.resolutions r WHERE r.campaign_id = $1 AND r.projection = $2 AND r.seq = $3 RETURNING r.reason
		)
		INSERT INTO tidemark.failure_log (act, consumer_group, projection, campaign_id, seq, actor, reason)
		SELECT 'unresolved', $4, $2, $1, $3, $5, $6 FROM gone`

	resolutionColumns = `r.campaign_id, r.projection, r.seq, r.actor, r.reason, r.resolved_at`

	// queryResolutions walks the primary key, or resolutions_projection_idx, to the end of a page.
	queryResolutions = `SELECT ` + resolutionColumns + ` FROM tidemark.resolutions r
		WHERE ($1 = '' OR r.projection = $1) AND ($2 = '' OR r.campaign_id = $2)
			AND (r.campaign_id, r.projection, r.seq) > ($3, $4, $5)
		ORDER BY r.campaign_id, r.projection, r.seq LIMIT $6`

	queryResolutionsOf = `SELECT ` + resolutionColumns + `
		FROM unnest($2::text[]) AS c (campaign_id) CROSS JOIN LATERAL (
			SELECT * FROM tidemark.resolutions r WHERE r.campaign_id = c.campaign_id AND r.projection = $1 OFFSET 0
		) r
		ORDER BY r.campaign_id, r.seq`

	queryCountResolutions = `SELECT count(*) FROM tidemark.resolutions r WHERE r.projection = $1`

	// queryLeftOut probes the primary key once a campaign, queryLeftOutBetween walks it through a range of them.
	queryLeftOut = `SELECT r.projection, r.campaign_id, r.seq
		FROM unnest($1::text[]) AS c (campaign_id) CROSS JOIN LATERAL (
			SELECT r.projection, r.campaign_id, r.seq FROM tidemark.resolutions r WHERE r.campaign_id = c.campaign_id OFFSET 0
		) r`
	queryLeftOutBetween = `SELECT r.projection, r.campaign_id, r.seq FROM tidemark.resolutions r
		WHERE r.projection = $1 AND r.campaign_id > $2 AND r.campaign_id <= $3`

	queryResolvedAhead = `SELECT EXISTS (SELECT FROM tidemark.resolutions r WHERE r.projection = $2 AND NOT EXISTS (
		SELECT FROM tidemark.leases l WHERE l.consumer_group = $1 AND l.campaign_id = r.campaign_id
			AND l.checkpoint >= r.seq OFFSET 0))`
)
