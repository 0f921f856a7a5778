package outbox

// Operators' views. They take no locks. Each is one statement, so its figures are of one moment.
// They also read tidemark.failed, projections, leases and pauses, which other packages write.
const (
	// queryReport counts up to $1 work items of each group and $3 failed campaigns, and reads $2 pages
	// beyond (migrations/functions/status.sql). It also reads the thousand failed campaigns due first.
	queryReport = `
		SELECT q.consumer_group, now(), q.pending, q.processing, q.paused, coalesce(behind.failed, 0),
			coalesce(behind.dead, 0), coalesce(behind.catching_up, 0),
			q.estimated OR coalesce(behind.estimated, false), oldest.campaign_id IS NOT NULL, coalesce(oldest.campaign_id, ''),
				coalesce(oldest.seq, 0), coalesce(oldest.events, 0), coalesce(oldest.event_type, ''),
			coalesce(oldest.status, ''), coalesce(oldest.projection, ''), coalesce(oldest.since, now()),
				coalesce(oldest.attempt_count, 0),
			coalesce(oldest.next_attempt_at, '0001-01-01 00:00Z'), coalesce(oldest.error, '')
		FROM tidemark.queue_report($1, $2) q
		LEFT JOIN (
			SELECT d.consumer_group, sum(d.pairs) FILTER (WHERE d.status = 'failed')::bigint AS failed,
				sum(d.pairs) FILTER (WHERE d.status = 'dead')::bigint AS dead,
				sum(d.pairs) FILTER (WHERE d.status = 'catching_up')::bigint AS catching_up, bool_or(d.estimated) AS estimated
			FROM tidemark.failed_report($3, $2) d WHERE d.projection NOT LIKE '%~previous'
			GROUP BY d.consumer_group
		) behind ON behind.consumer_group = q.consumer_group
		LEFT JOIN LATERAL (
			SELECT * FROM (
				SELECT q.campaign_id, q.seq, q.events, q.event_type, 'pending' AS status, '' AS projection, q.since,
					0 AS attempt_count, NULL::timestamptz AS next_attempt_at, '' AS error
				WHERE q.campaign_id IS NOT NULL
				UNION ALL
				(SELECT d.campaign_id, d.next_seq, 0, j.event_type, 'failed', d.projection, j.recorded_at, d.attempt_count,
					d.next_attempt_at, d.error_message
				FROM (
					SELECT * FROM tidemark.failed d WHERE d.status = 'failed' AND d.next_attempt_at <= now()
						ORDER BY d.status, d.next_attempt_at LIMIT 1000
				) d
				CROSS JOIN LATERAL (SELECT j.event_type, j.recorded_at FROM tidemark.journal j WHERE j.campaign_id = d.campaign_id
					AND j.seq = d.next_seq OFFSET 0) j
				WHERE d.consumer_group = q.consumer_group AND d.projection NOT LIKE '%~previous' AND NOT EXISTS (
					SELECT FROM tidemark.pauses p WHERE p.consumer_group = q.consumer_group AND p.expires_at > now()
						AND (p.scope = 'group' OR p.scope = 'projection' AND p.name = d.projection))
				ORDER BY j.recorded_at, d.campaign_id, d.projection LIMIT 1)
			) e ORDER BY e.since, e.campaign_id, e.projection LIMIT 1
		) oldest ON true
		ORDER BY q.consumer_group`

	// queryLag counts like queryReport. A projection's lag is what it takes of its group's, and of its own
	// failed campaigns. Across campaigns it counts the events that the projection takes from the first one that is
	// not applied: after the place of the partition that is furthest behind, or from the next event of a key
	// that is behind. Which later events are of that key only code knows, so the count is then an upper
	// bound. Each partition that is behind counts as a campaign, and so does each key.
	queryLag = `
		WITH parts AS MATERIALIZED (SELECT * FROM tidemark.lag_report($1, $2)), subjects AS (
			SELECT p.consumer_group, p.projection FROM parts p
			UNION
			SELECT r.consumer_group, r.name FROM tidemark.projections r
			EXCEPT
			SELECT r.consumer_group, r.name FROM tidemark.projections r WHERE r.scope = 'journal'
		)
		SELECT s.consumer_group, s.projection, coalesce(sum(p.events), 0)::bigint, coalesce(sum(p.campaigns), 0)::bigint,
			coalesce(extract(epoch FROM now() - min(p.since)), 0)::float8, coalesce(bool_or(p.estimated), false)
		FROM subjects s LEFT JOIN parts p ON p.consumer_group = s.consumer_group AND p.projection = s.projection
		GROUP BY s.consumer_group, s.projection
		UNION ALL
		SELECT r.consumer_group, r.name, greatest(a.events, f.events), a.late + k.keys,
			coalesce(extract(epoch FROM now() - least(a.since, f.since)), 0)::float8,
			a.estimated OR f.events IS NOT NULL OR k.keys >= $1
		FROM tidemark.projections r
		CROSS JOIN LATERAL (
			SELECT max(l.events) AS events, count(*) FILTER (WHERE l.events > 0) AS late, min(l.since) AS since,
				bool_or(l.estimated) AS estimated, min(w.place) AS place
			FROM (
				SELECT p.position AS place FROM tidemark.readers p WHERE p.topic = r.name AND p.kind = 'projection'
				UNION ALL
				SELECT 0 WHERE NOT EXISTS (SELECT FROM tidemark.readers p WHERE p.topic = r.name AND p.kind = 'projection')
			) w CROSS JOIN LATERAL tidemark.reader_lag(w.place, r.takes, (SELECT greatest($1 / greatest(count(*), 1),
				500)::integer FROM tidemark.readers WHERE kind = 'projection')) l
		) a
		CROSS JOIN LATERAL tidemark.keys_behind(r.consumer_group, r.name, $1) k
		LEFT JOIN LATERAL (SELECT l.* FROM tidemark.reader_lag(k.first - 1, r.takes, $1) l
			WHERE k.keys > 0 AND k.first <= a.place) f ON true
		WHERE r.scope = 'journal'
		ORDER BY 1, 2`

	// queryGroups reads a table with one row per group.
	queryGroups = `SELECT name, state, registered_at FROM tidemark.consumer_groups ORDER BY name`
)

// Pages walk primary keys from a place on and stop at the limit. Each row costs a probe of its
// event, and a work item one of its lease. They take no lock.
const (
	pageItems = `) SELECT o.consumer_group, o.campaign_id, f.seq, o.seq - f.seq + 1, coalesce(j.event_type, ''),
			CASE WHEN l.expires_at > now() AND l.owner <> 'paused' THEN 'processing' WHEN l.expires_at > now()
				OR p.paused THEN 'paused' ELSE 'pending' END,
			'', o.enqueued_at, 0, timestamptz '0001-01-01 00:00Z', ''
		FROM part o
		LEFT JOIN LATERAL (SELECT x.owner, x.expires_at, x.checkpoint FROM tidemark.leases x
			WHERE x.consumer_group = o.consumer_group AND x.campaign_id = o.campaign_id OFFSET 0) l ON true
		CROSS JOIN LATERAL (SELECT least(greatest(o.seq - o.events, l.checkpoint) + 1, o.seq) AS seq OFFSET 0) f
		LEFT JOIN LATERAL (SELECT x.event_type FROM tidemark.journal x WHERE x.campaign_id = o.campaign_id
			AND x.seq = f.seq OFFSET 0) j ON true
		CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM tidemark.pauses x WHERE x.scope = 'group'
			AND x.consumer_group = o.consumer_group AND x.name = '' AND x.expires_at > now()) AS paused OFFSET 0) p
		ORDER BY o.consumer_group, o.campaign_id, o.seq`

	queryPageItems = `WITH part AS MATERIALIZED (
			SELECT o.consumer_group, o.campaign_id, o.seq, o.events, o.enqueued_at FROM tidemark.outbox o
			WHERE (o.consumer_group, o.campaign_id, o.seq) > ($1, $2, $3) ORDER BY o.consumer_group, o.campaign_id, o.seq
				LIMIT $4
		` + pageItems

	// queryPageItemsOf reads the campaign's range in each group.
	queryPageItemsOf = `WITH part AS MATERIALIZED (
			SELECT i.* FROM (SELECT g.name FROM tidemark.consumer_groups g WHERE g.name >= $2 ORDER BY g.name) g CROSS
				JOIN LATERAL (
				SELECT o.consumer_group, o.campaign_id, o.seq, o.events, o.enqueued_at FROM tidemark.outbox o
				WHERE o.consumer_group = g.name AND o.campaign_id = $1 AND o.seq > CASE WHEN g.name = $2 THEN $3::bigint
					ELSE 0 END ORDER BY o.seq LIMIT $4
			) i ORDER BY i.consumer_group, i.seq LIMIT $4
		` + pageItems

	pageFailed = `) SELECT d.consumer_group, d.campaign_id, d.next_seq, 0::bigint,
			coalesce(d.event_type, j.event_type, ''), d.status,
		d.projection,
			coalesce(j.recorded_at, d.first_failed_at, nullif(d.next_attempt_at, 'infinity'), '0001-01-01 00:00Z'),
				d.attempt_count,
			CASE WHEN d.status = 'dead' THEN '0001-01-01 00:00Z' ELSE d.next_attempt_at END, coalesce(d.error_message, '')
		FROM part d LEFT JOIN LATERAL (SELECT x.event_type, x.recorded_at FROM tidemark.journal x
			WHERE x.campaign_id = d.campaign_id AND x.seq = d.next_seq OFFSET 0) j ON true
		ORDER BY d.campaign_id, d.projection`

	failedColumns = `SELECT d.consumer_group, d.campaign_id, d.next_seq, d.status, d.projection, d.first_failed_at,
		d.next_attempt_at, d.attempt_count, d.error_message, d.event_type FROM tidemark.failed d `

	queryPageFailed = `WITH part AS MATERIALIZED
		(` + failedColumns + `WHERE (d.campaign_id, d.projection) > ($1, $2)
		ORDER BY d.campaign_id, d.projection LIMIT $3` + pageFailed

	queryPageFailedOf = `WITH part AS MATERIALIZED
		(` + failedColumns + `WHERE d.campaign_id = $1 AND d.projection > $2
		ORDER BY d.projection LIMIT $3` + pageFailed
)
