package outbox

// The queries by which operators look at the work. They take no locks, and each is one statement, so that its figures are of one moment. They also read
// tidemark.deferred and tidemark.projections, which pkg/projector writes.
const (
	// queryReport scans the outbox twice, for the counts and for the oldest entry (a sort that keeps one row), and probes leases.
	queryReport = `
		SELECT g.name, now(), coalesce(items.pending, 0), coalesce(items.processing, 0), coalesce(pairs.failed, 0), coalesce(pairs.dead, 0),
			coalesce(pairs.rebuilding, 0), oldest.campaign_id IS NOT NULL, coalesce(oldest.campaign_id, ''), coalesce(oldest.seq, 0), coalesce(oldest.event_type, ''),
			coalesce(oldest.status, ''), coalesce(oldest.projection, ''), coalesce(oldest.since, now()), coalesce(oldest.attempt_count, 0),
			coalesce(oldest.next_attempt_at, '0001-01-01 00:00Z'), coalesce(oldest.error, '')
		FROM tidemark.consumer_groups g
		LEFT JOIN (
			SELECT o.consumer_group, count(*) FILTER (WHERE l.expires_at > now()) AS processing,
				count(*) FILTER (WHERE l.expires_at IS NULL OR l.expires_at <= now()) AS pending
			FROM tidemark.outbox o LEFT JOIN tidemark.leases l USING (consumer_group, campaign_id)
			GROUP BY o.consumer_group
		) items ON items.consumer_group = g.name
		LEFT JOIN (
			SELECT d.consumer_group, count(*) FILTER (WHERE d.status = 'failed') AS failed, count(*) FILTER (WHERE d.status = 'dead') AS dead,
				count(*) FILTER (WHERE d.status = 'rebuilding') AS rebuilding
			FROM tidemark.deferred d
			GROUP BY d.consumer_group
		) pairs ON pairs.consumer_group = g.name
		LEFT JOIN LATERAL (
			SELECT * FROM (
				(SELECT o.campaign_id, o.seq, o.event_type, 'pending' AS status, '' AS projection, o.enqueued_at AS since, 0 AS attempt_count,
					NULL::timestamptz AS next_attempt_at, '' AS error
				FROM tidemark.outbox o LEFT JOIN tidemark.leases l USING (consumer_group, campaign_id)
				WHERE o.consumer_group = g.name AND (l.expires_at IS NULL OR l.expires_at <= now())
				ORDER BY o.enqueued_at, o.campaign_id, o.seq LIMIT 1)
				UNION ALL
				(SELECT d.campaign_id, d.next_seq, j.event_type, 'failed', d.projection, j.recorded_at, d.attempt_count, d.next_attempt_at, d.error_message
				FROM tidemark.deferred d JOIN tidemark.journal j ON j.campaign_id = d.campaign_id AND j.seq = d.next_seq
				WHERE d.consumer_group = g.name AND d.status = 'failed' AND d.next_attempt_at <= now()
				ORDER BY j.recorded_at, d.campaign_id, d.projection LIMIT 1)
			) e ORDER BY e.since, e.campaign_id, e.projection LIMIT 1
		) oldest ON true
		ORDER BY g.name`

	// queryList scans the outbox and keeps the $3 rows that have waited longest; with a campaign, it reads that campaign's range of each group. A pair that has
	// caught up but is still filed has no next event.
	queryList = `
		SELECT e.consumer_group, e.campaign_id, e.seq, e.event_type, e.status, e.projection, e.since, e.attempt_count, e.next_attempt_at, e.error
		FROM (
			SELECT o.consumer_group, o.campaign_id, o.seq, o.event_type, CASE WHEN l.expires_at > now() THEN 'processing' ELSE 'pending' END AS status,
				'' AS projection, o.enqueued_at AS since, 0 AS attempt_count, timestamptz '0001-01-01 00:00Z' AS next_attempt_at, '' AS error
			FROM tidemark.consumer_groups g
			JOIN tidemark.outbox o ON o.consumer_group = g.name
			LEFT JOIN tidemark.leases l ON l.consumer_group = o.consumer_group AND l.campaign_id = o.campaign_id
			UNION ALL
			SELECT d.consumer_group, d.campaign_id, d.next_seq, coalesce(j.event_type, ''), d.status, d.projection,
				coalesce(j.recorded_at, d.first_failed_at, d.next_attempt_at), d.attempt_count,
				CASE WHEN d.status = 'dead' THEN '0001-01-01 00:00Z' ELSE d.next_attempt_at END, coalesce(d.error_message, '')
			FROM tidemark.deferred d LEFT JOIN tidemark.journal j ON j.campaign_id = d.campaign_id AND j.seq = d.next_seq
		) e
		WHERE ($1 = '' OR e.status = $1) AND ($2 = '' OR e.campaign_id = $2)
		ORDER BY e.since, e.consumer_group, e.campaign_id, e.seq, e.projection
		LIMIT $3`

	// queryLag reads the outbox's primary key once, for the campaigns that are behind; for each of them, and for each deferred pair, it probes the journal
	// for the head and for the next event.
	queryLag = `
		WITH places AS (
			SELECT o.consumer_group, '' AS projection, o.campaign_id, coalesce(l.checkpoint, 0) AS applied
			FROM (SELECT DISTINCT consumer_group, campaign_id FROM tidemark.outbox) o
			LEFT JOIN tidemark.leases l USING (consumer_group, campaign_id)
			UNION ALL
			SELECT d.consumer_group, d.projection, d.campaign_id, d.next_seq - 1 FROM tidemark.deferred d
		), behind AS MATERIALIZED (
			SELECT p.consumer_group, p.projection, p.campaign_id, head.seq - p.applied AS events, next.recorded_at AS since
			FROM places p
			CROSS JOIN LATERAL (SELECT j.seq FROM tidemark.journal j WHERE j.campaign_id = p.campaign_id ORDER BY j.seq DESC LIMIT 1) head
			LEFT JOIN LATERAL (SELECT j.recorded_at FROM tidemark.journal j WHERE j.campaign_id = p.campaign_id AND j.seq = p.applied + 1) next ON true
			WHERE head.seq > p.applied
		), subjects AS (
			SELECT g.name AS consumer_group, '' AS projection FROM tidemark.consumer_groups g
			UNION ALL
			SELECT p.consumer_group, p.name FROM tidemark.projections p
		)
		SELECT s.consumer_group, s.projection, coalesce(sum(b.events), 0)::bigint, count(b.campaign_id),
			coalesce(extract(epoch FROM now() - min(b.since)), 0)::float8
		FROM subjects s
		LEFT JOIN behind b ON b.consumer_group = s.consumer_group AND (
			b.projection = s.projection
			OR b.projection = '' AND NOT EXISTS (
				SELECT FROM tidemark.deferred d WHERE d.campaign_id = b.campaign_id AND d.projection = s.projection
			)
		)
		GROUP BY s.consumer_group, s.projection
		ORDER BY s.consumer_group, s.projection`
)
