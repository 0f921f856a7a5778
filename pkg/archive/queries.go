package archive

const (
	// queryWalk steps along the primary key from campaign to campaign after $1, up to $2 of them. It
	// returns those whose last event is of a type in $3 and was appended before $4, and the last of all.
	queryWalk = `WITH RECURSIVE walk AS (
			(SELECT j.campaign_id, 1 AS steps FROM tidemark.journal j WHERE j.campaign_id > $1
				ORDER BY j.campaign_id LIMIT 1)
			UNION ALL
			SELECT n.campaign_id, w.steps + 1
			FROM walk w CROSS JOIN LATERAL (
				SELECT j.campaign_id FROM tidemark.journal j WHERE j.campaign_id > w.campaign_id ORDER BY j.campaign_id LIMIT 1
			) n
			WHERE w.steps < $2
		)
		SELECT w.campaign_id, h.event_version > 0 AND h.event_type = ANY ($3::text[])
			AND h.recorded_at < clock_timestamp() - $4::interval
		FROM walk w CROSS JOIN LATERAL (
			SELECT j.event_type, j.event_version, j.recorded_at FROM tidemark.journal j WHERE j.campaign_id = w.campaign_id
			ORDER BY j.seq DESC LIMIT 1
		) h ORDER BY w.campaign_id`

	// querySizes reads the campaigns' ranges of the primary key, without their payloads.
	querySizes = `SELECT c.id, s.events, s.bytes, r.reason
		FROM unnest($1::text[]) WITH ORDINALITY AS c (id, ord)
		CROSS JOIN LATERAL (SELECT count(*) AS events, coalesce(sum(j.payload_bytes), 0)::bigint AS bytes
			FROM tidemark.journal j WHERE j.campaign_id = c.id) s
		LEFT JOIN tidemark.not_archivable($1) r ON r.campaign_id = c.id
		ORDER BY c.ord`

	queryLines      = `SELECT lines FROM tidemark.archive_lines($1)`
	queryUnreadable = `SELECT DISTINCT j.campaign_id FROM tidemark.journal j WHERE j.campaign_id = ANY ($1)
		AND NOT tidemark.readable(j.payload, j.metadata)`

	// queryArchive tries the campaigns' locks, and deletes and updates events by the primary key.
	queryArchive = `SELECT campaign_id, reason FROM tidemark.archive($1, $2, $3, $4, $5, $6, $7)`
	queryRestore = `SELECT campaign_id, reason FROM tidemark.restore($1, $2, nullif($3::interval, '0'))`
	queryAsk     = `SELECT tidemark.ask_restore($1)`

	// queryMarks probes the primary key for each campaign.
	queryMarks = `SELECT c.id, coalesce(h.mark ->> 'object', ''), coalesce(h.mark ->> 'sha256', ''),
			coalesce((h.mark ->> 'bytes')::bigint, 0)
		FROM unnest($1::text[]) AS c (id) LEFT JOIN LATERAL (
			SELECT CASE WHEN j.event_version = 0 THEN j.metadata -> '$archived' END AS mark FROM tidemark.journal j
			WHERE j.campaign_id = c.id ORDER BY j.seq DESC LIMIT 1
		) h ON true`

	queryObjects = `SELECT '', object, encode(sha256, 'hex'), bytes FROM tidemark.archives
		WHERE campaigns > 0 AND ($1::text[] IS NULL OR object = ANY ($1)) AND ($2::text[] IS NULL OR event_types && $2)
		ORDER BY object`

	// queryBetween reads the small table of archives: the mark, the instance of the database, and the objects
	// with events after $1 up to $2.
	queryBetween = `SELECT m.mark, coalesce(tidemark.instance(), ''),
			coalesce((extract(epoch FROM a.archived_at) * 1000000)::bigint, 0),
			coalesce(a.object, ''), coalesce(encode(a.sha256, 'hex'), ''), coalesce(a.bytes, 0)
		FROM (SELECT tidemark.archive_mark(0, 9223372036854775807) AS mark) m
		LEFT JOIN tidemark.archives a ON a.campaigns > 0 AND a.last_position > $1 AND a.first_position <= $2
		ORDER BY a.archived_at`
)
