package retention

const (
	// queryKnow writes a policy of the file, unless it is known. One that closes other campaigns than before
	// goes through all of them again.
	queryKnow = `INSERT INTO tidemark.retention AS r (policy, closed_for, event_types, every, rate)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (policy) DO UPDATE SET closed_for = excluded.closed_for, event_types = excluded.event_types,
			every = excluded.every, rate = excluded.rate, position = CASE WHEN (r.closed_for, r.event_types)
				= (excluded.closed_for, excluded.event_types) THEN r.position END
		WHERE (r.closed_for, r.event_types, r.every, r.rate)
			<> (excluded.closed_for, excluded.event_types, excluded.every, excluded.rate)`

	// queryForget deletes the policies that the file does not have.
	queryForget = `DELETE FROM tidemark.retention WHERE policy <> ALL ($1::text[])`

	// queryBegin notes that a policy runs, if it is due. It returns the time and the position up to which it
	// has seen events, or -1.
	queryBegin = `UPDATE tidemark.retention SET began_at = clock_timestamp(), ended_at = NULL
		WHERE policy = $1 AND coalesce(began_at + every <= clock_timestamp(), true)
		RETURNING began_at, coalesce("position", -1)`

	queryStartOver = `DELETE FROM tidemark.retention_due WHERE policy = $1`

	// queryWalk steps along the primary key from campaign to campaign after $2, up to $3 of them, and notes
	// those whose last event closes them. It returns the last campaign and how many there were.
	queryWalk = `WITH RECURSIVE walk AS (
			(SELECT j.campaign_id, 1 AS steps FROM tidemark.journal j WHERE j.campaign_id > $2
				ORDER BY j.campaign_id LIMIT 1)
			UNION ALL
			SELECT n.campaign_id, w.steps + 1
			FROM walk w CROSS JOIN LATERAL (
				SELECT j.campaign_id FROM tidemark.journal j WHERE j.campaign_id > w.campaign_id ORDER BY j.campaign_id LIMIT 1
			) n
			WHERE w.steps < $3
		), noted AS (
			INSERT INTO tidemark.retention_due (policy, campaign_id, due_at)
			SELECT $1, w.campaign_id, h.recorded_at + $5::interval
			FROM walk w CROSS JOIN LATERAL (SELECT j.event_type, j.event_version, j.recorded_at FROM tidemark.journal j
				WHERE j.campaign_id = w.campaign_id ORDER BY j.seq DESC LIMIT 1) h
			WHERE h.event_version > 0 AND h.event_type = ANY ($4::text[])
			ORDER BY w.campaign_id ON CONFLICT (policy, campaign_id) DO UPDATE SET due_at = excluded.due_at
		)
		SELECT coalesce((SELECT w.campaign_id FROM walk w ORDER BY w.steps DESC LIMIT 1), ''), (SELECT count(*) FROM walk)`

	// queryWalked notes that a policy has been through all campaigns.
	queryWalked = `UPDATE tidemark.retention SET "position" = $2 WHERE policy = $1`

	// querySee notes campaigns with closing events after position $2 up to $3. It reads a range of the index
	// on position.
	querySee = `WITH seen AS (UPDATE tidemark.retention SET "position" = $3 WHERE policy = $1)
		INSERT INTO tidemark.retention_due (policy, campaign_id, due_at)
		SELECT $1, j.campaign_id, max(j.recorded_at) + $5::interval FROM tidemark.journal j
		WHERE j."position" > $2 AND j."position" <= $3 AND j.event_version > 0 AND j.event_type = ANY ($4::text[])
		GROUP BY j.campaign_id ORDER BY j.campaign_id
		ON CONFLICT (policy, campaign_id) DO UPDATE SET due_at = excluded.due_at`

	// queryDue returns up to $5 campaigns that are due at $2, after one, and whether their last event
	// closes them so long ago.
	queryDue = `SELECT d.campaign_id, d.due_at, coalesce(h.event_version > 0 AND h.event_type = ANY ($6::text[])
			AND h.recorded_at + $7::interval <= $2::timestamptz, false)
		FROM (SELECT d.campaign_id, d.due_at FROM tidemark.retention_due d
			WHERE d.policy = $1 AND d.due_at <= $2 AND (d.due_at, d.campaign_id) > ($3::timestamptz, $4)
			ORDER BY d.due_at, d.campaign_id LIMIT $5) d
		LEFT JOIN LATERAL (SELECT j.event_type, j.event_version, j.recorded_at FROM tidemark.journal j
			WHERE j.campaign_id = d.campaign_id ORDER BY j.seq DESC LIMIT 1) h ON true
		ORDER BY d.due_at, d.campaign_id`

	// querySettle forgets campaigns that are archived or open, and puts off those that were closed again.
	querySettle = `WITH ends AS (
			SELECT d.campaign_id, d.due_at, h.recorded_at + $4::interval AS at,
				coalesce(h.event_version > 0 AND h.event_type = ANY ($3::text[]), false) AS closed
			FROM tidemark.retention_due d LEFT JOIN LATERAL (
				SELECT j.event_type, j.event_version, j.recorded_at FROM tidemark.journal j
				WHERE j.campaign_id = d.campaign_id ORDER BY j.seq DESC LIMIT 1
			) h ON true
			WHERE d.policy = $1 AND d.campaign_id = ANY ($2::text[])
		), over AS (
			DELETE FROM tidemark.retention_due d USING ends e
			WHERE d.policy = $1 AND d.campaign_id = e.campaign_id AND NOT e.closed
		)
		UPDATE tidemark.retention_due d SET due_at = e.at FROM ends e
		WHERE d.policy = $1 AND d.campaign_id = e.campaign_id AND e.closed AND e.at > e.due_at`

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
