package keys

const (
	// queryUnopened reads the first 10,000 failed campaigns by the index of failures, as many parked events, and
	// the readers.
	queryUnopened = `SELECT k.id, sum(k.failed)::bigint, sum(k.parked)::bigint, sum(k.held)::bigint
		FROM (
			SELECT substring(d.error_message FROM E'` + named + `') AS id, 1 AS failed, 0 AS parked, 0 AS held
			FROM (SELECT d.error_code, d.error_message FROM tidemark.failed d WHERE d.status IN ('failed', 'dead')
				LIMIT 10000) d
			WHERE d.error_code IN ('key', 'wrapping_key')
			UNION ALL
			SELECT substring(p.error_message FROM E'` + named + `'), 0, 1, 0
			FROM (SELECT p.error_message FROM tidemark.parked p LIMIT 10000) p
			UNION ALL
			SELECT substring(r.last_error FROM E'` + named + `'), 0, 0, 1 FROM tidemark.readers r
			WHERE r.failing_since IS NOT NULL
		) k WHERE k.id IS NOT NULL
		GROUP BY k.id ORDER BY sum(k.failed + k.parked + k.held) DESC, k.id LIMIT $1`

	// named finds a key's id in the errors of catalogue.Sealer. It is for a literal with E, which does not depend
	// on standard_conforming_strings.
	named = `\\mkey ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) (?:does not open|cannot be opened|is wrapped by)`

	// queryFind reads a key by its id, and looks for it in the newest events, by the index on position, and in
	// the first 10,000 failures and parked events.
	queryFind = `WITH newest AS MATERIALIZED (
			SELECT j.campaign_id, j.payload FROM tidemark.journal j ORDER BY j.position DESC LIMIT 10000
		), named AS MATERIALIZED (
			SELECT 'event' AS kind, n.campaign_id FROM newest n WHERE position($1::text IN n.payload::text) > 0
			UNION ALL
			SELECT 'failed', d.campaign_id FROM (SELECT d.campaign_id, d.error_code, d.error_message FROM tidemark.failed d
				WHERE d.status IN ('failed', 'dead') LIMIT 10000) d
			WHERE d.error_code IN ('key', 'wrapping_key') AND position($1::text IN d.error_message) > 0
			UNION ALL
			SELECT 'parked', p.campaign_id FROM (SELECT p.campaign_id, p.error_message FROM tidemark.parked p LIMIT 10000) p
			WHERE position($1::text IN p.error_message) > 0
		)
		SELECT k.id::text, k.wrapped_by, k.created_at,
			(SELECT count(*) FROM named n WHERE n.kind = 'event'), (SELECT count(*) FROM newest),
			coalesce((SELECT array_agg(c.campaign_id ORDER BY c.campaign_id) FROM (SELECT DISTINCT n.campaign_id FROM named n
				ORDER BY 1 LIMIT 10) c), '{}'),
			(SELECT count(*) FROM named n WHERE n.kind = 'failed'), (SELECT count(*) FROM named n WHERE n.kind = 'parked')
		FROM tidemark.keys k
		WHERE k.id = $1::text::uuid`

	queryDeleted = `SELECT (SELECT d.deleted_at FROM tidemark.deleted_keys d WHERE d.id = $1::text::uuid)`

	// queryDelete deletes one row by its primary key, and writes the log of operators.
	queryDelete = `SELECT tidemark.forget_key($1::text::uuid, $2, $3, $4, $5, $6)`
)
