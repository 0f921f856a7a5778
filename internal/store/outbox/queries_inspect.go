package outbox

// The queries by which operators look at the work. They take no locks, and each is one statement,
// so that its figures are of one moment. They also read tidemark.deferred, tidemark.projections,
// tidemark.leases and tidemark.pauses, which other packages write.
const (
	// queryReport counts up to $1 work items of each group and $3 pairs, and beyond that reads $2
	// pages (migrations/00009_status.sql), and looks at the thousand failed pairs that are due first.
	queryReport = `
		SELECT q.consumer_group, now(), q.pending, q.processing, q.paused, coalesce(pairs.failed, 0),
			coalesce(pairs.dead, 0), coalesce(pairs.rebuilding, 0),
			q.estimated OR coalesce(pairs.estimated, false), oldest.campaign_id IS NOT NULL, coalesce(oldest.campaign_id, ''),
				coalesce(oldest.seq, 0), coalesce(oldest.events, 0), coalesce(oldest.event_type, ''),
			coalesce(oldest.status, ''), coalesce(oldest.projection, ''), coalesce(oldest.since, now()),
				coalesce(oldest.attempt_count, 0),
			coalesce(oldest.next_attempt_at, '0001-01-01 00:00Z'), coalesce(oldest.error, '')
		FROM tidemark.queue_report($1, $2) q
		LEFT JOIN (
			SELECT d.consumer_group, sum(d.pairs) FILTER (WHERE d.status = 'failed')::bigint AS failed,
				sum(d.pairs) FILTER (WHERE d.status = 'dead')::bigint AS dead,
				sum(d.pairs) FILTER (WHERE d.status = 'rebuilding')::bigint AS rebuilding, bool_or(d.estimated) AS estimated
			FROM tidemark.deferred_report($3, $2) d
			GROUP BY d.consumer_group
		) pairs ON pairs.consumer_group = q.consumer_group
		LEFT JOIN LATERAL (
			SELECT * FROM (
				SELECT q.campaign_id, q.seq, q.events, q.event_type, 'pending' AS status, '' AS projection, q.since,
					0 AS attempt_count, NULL::timestamptz AS next_attempt_at, '' AS error
				WHERE q.campaign_id IS NOT NULL
				UNION ALL
				(SELECT d.campaign_id, d.next_seq, 0, j.event_type, 'failed', d.projection, j.recorded_at, d.attempt_count,
					d.next_attempt_at, d.error_message
				FROM (
					SELECT * FROM tidemark.deferred d WHERE d.status = 'failed' AND d.next_attempt_at <= now()
						ORDER BY d.status, d.next_attempt_at LIMIT 1000
				) d
				CROSS JOIN LATERAL (SELECT j.event_type, j.recorded_at FROM tidemark.journal j WHERE j.campaign_id = d.campaign_id
					AND j.seq = d.next_seq OFFSET 0) j
				WHERE d.consumer_group = q.consumer_group AND NOT EXISTS (
					SELECT FROM tidemark.pauses p WHERE p.consumer_group = q.consumer_group AND p.expires_at > now()
						AND (p.scope = 'group' OR p.scope = 'projection' AND p.name = d.projection))
				ORDER BY j.recorded_at, d.campaign_id, d.projection LIMIT 1)
			) e ORDER BY e.since, e.campaign_id, e.projection LIMIT 1
		) oldest ON true
		ORDER BY q.consumer_group`

	// queryLag counts as queryReport does. A projection is behind by what its group is and what its own pairs add.
	queryLag = `
		WITH parts AS MATERIALIZED (SELECT * FROM tidemark.lag_report($1, $2)), subjects AS (
			SELECT p.consumer_group, p.projection FROM parts p
			UNION
			SELECT r.consumer_group, r.name FROM tidemark.projections r
		)
		SELECT s.consumer_group, s.projection, coalesce(sum(p.events), 0)::bigint, coalesce(sum(p.campaigns), 0)::bigint,
			coalesce(extract(epoch FROM now() - min(p.since)), 0)::float8, coalesce(bool_or(p.estimated), false)
		FROM subjects s LEFT JOIN parts p ON p.consumer_group = s.consumer_group AND p.projection IN ('', s.projection)
		GROUP BY s.consumer_group, s.projection
		ORDER BY s.consumer_group, s.projection`

	// queryGroups reads a table of one row a group.
	queryGroups = `SELECT name, state, registered_at FROM tidemark.consumer_groups ORDER BY name`
)
