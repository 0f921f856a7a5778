package outbox

const (
	// queryWaiting steps from campaign to campaign along the outbox's primary key, and probes those of
	// the leases and the journal once each.
	queryWaiting = `WITH RECURSIVE walk AS (
			SELECT $1::text COLLATE "C" AS consumer_group, $2::text COLLATE "C" AS campaign_id,
				NULL::timestamptz AS enqueued_at, 0 AS steps
			UNION ALL
			SELECT n.consumer_group, n.campaign_id, n.enqueued_at, w.steps + 1
			FROM walk w CROSS JOIN LATERAL (
				SELECT o.consumer_group, o.campaign_id, o.enqueued_at FROM tidemark.outbox o
				WHERE (o.consumer_group, o.campaign_id) > (w.consumer_group, w.campaign_id)
					ORDER BY o.consumer_group, o.campaign_id, o.seq LIMIT 1
			) n
			WHERE w.steps < $3
		)
		SELECT w.consumer_group, w.campaign_id, w.enqueued_at, coalesce(l.checkpoint, 0), coalesce(h.seq, 0),
			coalesce(l.expires_at > clock_timestamp(), false)
		FROM walk w LEFT JOIN LATERAL (
			SELECT l.checkpoint, l.expires_at FROM tidemark.leases l WHERE l.consumer_group = w.consumer_group
				AND l.campaign_id = w.campaign_id OFFSET 0
		) l ON true LEFT JOIN LATERAL (
			SELECT j.seq FROM tidemark.journal j WHERE j.campaign_id = w.campaign_id ORDER BY j.seq DESC LIMIT 1
		) h ON true
		WHERE w.steps > 0 ORDER BY w.steps`
)
