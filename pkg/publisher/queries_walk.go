package publisher

const (
	// queryWalkParked reads a range of the primary key, up to $11 rows. A row's texts come only where it matches.
	queryWalkParked = `SELECT k.matches, k.topic, k.publisher, k.campaign_id, k.seq, k.holds, k.position, k.status, k.attempt_count, k.next_attempt_at, k.event_id,
			coalesce(k.event_type, ''), CASE WHEN k.matches THEN coalesce(k.error_message, '') ELSE '' END, k.first_failed_at, k.last_failed_at
		FROM (
			SELECT p.*, ($3 = '' OR p.campaign_id = $3) AND ($4 = '' OR p.event_type = $4) AND ($5 = '' OR p.status = $5) AS matches
			FROM tidemark.parked p
			WHERE ($1 = '' OR p.topic = $1) AND ($2 = '' OR p.publisher = $2) AND (p.topic, p.publisher, p.campaign_id, p.seq, p.holds) > ($6, $7, $8, $9::bigint, $10::boolean)
			ORDER BY p.topic, p.publisher, p.campaign_id, p.seq, p.holds LIMIT $11::integer
		) k ORDER BY k.topic, k.publisher, k.campaign_id, k.seq, k.holds`
)
