package retention

const (
	// queryKnow writes a policy of the file, unless it is known.
	queryKnow = `INSERT INTO tidemark.retention AS r (policy, closed_for, event_types, every, rate)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (policy) DO UPDATE SET closed_for = excluded.closed_for, event_types = excluded.event_types,
			every = excluded.every, rate = excluded.rate
		WHERE (r.closed_for, r.event_types, r.every, r.rate)
			<> (excluded.closed_for, excluded.event_types, excluded.every, excluded.rate)`

	// queryForget deletes the policies that the file does not have.
	queryForget = `DELETE FROM tidemark.retention WHERE policy <> ALL ($1::text[])`

	// queryBegin notes that a policy runs, if it is due.
	queryBegin = `UPDATE tidemark.retention SET began_at = clock_timestamp(), ended_at = NULL
		WHERE policy = $1 AND coalesce(began_at + every <= clock_timestamp(), true)`

	queryEnd = `UPDATE tidemark.retention SET ended_at = clock_timestamp(), campaigns = $2, events = $3, left_out = $4,
			reasons = coalesce($5::jsonb, '[]'), error = $6
		WHERE policy = $1`

	queryList = `SELECT policy, closed_for, event_types, every, rate, began_at, ended_at, campaigns, events, left_out,
			reasons, error
		FROM tidemark.retention WHERE policy > $1 ORDER BY policy LIMIT $2`
)
