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

	// queryLook asks whether requests are due, or the duty has to be renewed. It reads an index that is
	// empty almost always, and a row.
	queryLook = `SELECT EXISTS (SELECT FROM tidemark.restore_requests r
			WHERE r.kept_until IS NULL AND r.attempt_at <= clock_timestamp())
		OR NOT EXISTS (SELECT FROM tidemark.duties d
			WHERE d.name = $1 AND d.expires_at > clock_timestamp() + interval '20 s')`

	// queryServed deletes requests whose time is over, or that were filed while their campaign came back.
	queryServed = `DELETE FROM tidemark.restore_requests r
		WHERE r.kept_until <= clock_timestamp() OR r.kept_until IS NULL AND (SELECT j.event_version FROM tidemark.journal j
			WHERE j.campaign_id = r.campaign_id ORDER BY j.seq DESC LIMIT 1) > 0`

	// queryClaim returns due requests. Their next attempts are spread, so that none is always tried with
	// one that keeps its statement from its end.
	queryClaim = `UPDATE tidemark.restore_requests r SET attempts = r.attempts + 1, attempt_at = clock_timestamp()
			+ (0.5 + random()) * least(interval '5 min', interval '1 s' * 2 ^ least(r.attempts, 16))
		FROM (SELECT d.campaign_id FROM tidemark.restore_requests d
			WHERE d.kept_until IS NULL AND d.attempt_at <= clock_timestamp()
			ORDER BY d.attempt_at LIMIT 100 FOR UPDATE SKIP LOCKED) d
		WHERE r.campaign_id = d.campaign_id RETURNING r.campaign_id`

	// queryNote keeps why campaigns are not back.
	queryNote = `UPDATE tidemark.restore_requests r SET error = left(coalesce((SELECT l ->> 'reason'
			FROM jsonb_array_elements(coalesce($2::jsonb, '[]')) l WHERE l ->> 'campaign_id' = r.campaign_id), $3), 1000)
		WHERE r.campaign_id = ANY ($1) AND r.kept_until IS NULL`

	queryRequests = `SELECT campaign_id, asked_by, asked_at, attempts,
			CASE WHEN kept_until IS NULL THEN attempt_at END, kept_until, error
		FROM tidemark.restore_requests WHERE campaign_id > $1 ORDER BY campaign_id LIMIT $2`
)
