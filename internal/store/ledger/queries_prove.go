package ledger

const (
	queryPositions = `SELECT position FROM tidemark.readers WHERE topic = $1 AND kind = 'projection'
		ORDER BY substr(publisher, 2)::int`

	// queryProve reads the journal up to the farthest place once: it sums up the events between two
	// neighbouring places, and adds these up for each place.
	queryProve = `WITH places AS MATERIALIZED (
			SELECT r.publisher, r.position, r.applied, r.applied_hash FROM tidemark.readers r
			WHERE r.topic = $1 AND r.kind = 'projection'
		), stretches AS MATERIALIZED (
			SELECT j.stretch, count(*) AS events, bit_xor(j.hash) AS hash FROM (
				SELECT width_bucket(j.position, b.starts) AS stretch, uuid_hash_extended(j.event_id, 0) AS hash
				FROM (SELECT array_agg(DISTINCT p.position + 1 ORDER BY p.position + 1) AS starts, max(p.position) AS last
					FROM places p) b CROSS JOIN tidemark.journal j
				WHERE j.position <= b.last
			) j GROUP BY j.stretch
		)
		SELECT p.publisher, p.position, p.applied, (coalesce(s.events, 0) + coalesce(a.events, 0))::bigint,
			p.applied_hash = coalesce(s.hash, 0) # coalesce(a.hash, 0)
		FROM (SELECT p.*, dense_rank() OVER (ORDER BY p.position) - 1 AS stretch FROM places p) p
		CROSS JOIN LATERAL (SELECT sum(s.events) AS events, bit_xor(s.hash) AS hash FROM stretches s
			WHERE s.stretch <= p.stretch) s
		CROSS JOIN LATERAL (SELECT sum(a.removed) AS events, bit_xor(a.removed_hash) AS hash FROM tidemark.archives a
			WHERE a.campaigns > 0 AND a.last_position <= p.position) a
		ORDER BY p.publisher`
)
