package outbox

// Pages walk primary keys from a place on and stop at the limit; each row costs a probe of its
// event and, if it is a work item, one of its campaign's lease. They take no lock.
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

	// queryPageItemsOf reads the campaign's range of each group.
	queryPageItemsOf = `WITH part AS MATERIALIZED (
			SELECT i.* FROM (SELECT g.name FROM tidemark.consumer_groups g WHERE g.name >= $2 ORDER BY g.name) g CROSS
				JOIN LATERAL (
				SELECT o.consumer_group, o.campaign_id, o.seq, o.events, o.enqueued_at FROM tidemark.outbox o
				WHERE o.consumer_group = g.name AND o.campaign_id = $1 AND o.seq > CASE WHEN g.name = $2 THEN $3::bigint
					ELSE 0 END ORDER BY o.seq LIMIT $4
			) i ORDER BY i.consumer_group, i.seq LIMIT $4
		` + pageItems

	pagePairs = `) SELECT d.consumer_group, d.campaign_id, d.next_seq, 0::bigint, coalesce(j.event_type, ''), d.status,
		d.projection,
			coalesce(j.recorded_at, d.first_failed_at, nullif(d.next_attempt_at, 'infinity'), '0001-01-01 00:00Z'),
				d.attempt_count,
			CASE WHEN d.status = 'dead' THEN '0001-01-01 00:00Z' ELSE d.next_attempt_at END, coalesce(d.error_message, '')
		FROM part d LEFT JOIN LATERAL (SELECT x.event_type, x.recorded_at FROM tidemark.journal x
			WHERE x.campaign_id = d.campaign_id AND x.seq = d.next_seq OFFSET 0) j ON true
		ORDER BY d.campaign_id, d.projection`

	pairColumns = `SELECT d.consumer_group, d.campaign_id, d.next_seq, d.status, d.projection, d.first_failed_at,
		d.next_attempt_at, d.attempt_count, d.error_message FROM tidemark.deferred d `

	queryPagePairs = `WITH part AS MATERIALIZED
		(` + pairColumns + `WHERE (d.campaign_id, d.projection) > ($1, $2)
		ORDER BY d.campaign_id, d.projection LIMIT $3` + pagePairs

	queryPagePairsOf = `WITH part AS MATERIALIZED
		(` + pairColumns + `WHERE d.campaign_id = $1 AND d.projection > $2
		ORDER BY d.projection LIMIT $3` + pagePairs
)
