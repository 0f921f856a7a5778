package failed

// What operators see and do. Statements that choose pairs by a filter take its arguments $1 to $15
// (Filter.args) and are planned for them, so that only the conditions that a filter sets are there.
// Failed and dead pairs come along deferred_failures_idx, which has their order; those being
// rebuilt are read as a whole: they are many for a while, and on their way.
const (
	campaignColumns = `d.projection, d.campaign_id, d.consumer_group, coalesce(d.projection_version, 0), d.next_seq,
		d.status, d.attempt_count, d.next_attempt_at, d.event_id,
		coalesce(d.event_type, ''), coalesce(d.error_class, ''), coalesce(d.error_code, ''), coalesce(d.error_message, ''),
			coalesce(d.fingerprint, ''),
		d.first_failed_at, d.last_failed_at, coalesce(d.worker, ''), d.reset`

	campaignOrder = ` ORDER BY next_attempt_at, next_seq, campaign_id, projection`

	matches = ` = ANY ($1::text[]) AND ($2 = '' OR d.consumer_group = $2) AND ($3 = '' OR d.projection = $3)
		AND ($4 = '' OR d.campaign_id = $4)
		AND ($5 = '' OR d.event_type = $5) AND ($6 = '' OR d.error_class = $6) AND ($7 = '' OR d.error_code = $7)
			AND ($8 = '' OR d.fingerprint = $8)
		AND ($9::interval = '0' OR d.first_failed_at <= now() - $9::interval
			OR d.first_failed_at IS NULL AND d.status <> 'rebuilding')` + afterPlace

	matchingFailed     = ` FROM tidemark.deferred d WHERE d.status = 'failed' AND 'failed'` + matches
	matchingDead       = ` FROM tidemark.deferred d WHERE d.status = 'dead' AND 'dead'` + matches
	matchingRebuilding = ` FROM tidemark.deferred d WHERE d.status = 'rebuilding' AND 'rebuilding'` + matches

	// queryList reads no more of each status than it may answer, if the filter matches them.
	queryList = `SELECT ` + campaignColumns + ` FROM (
			(SELECT d.*` + matchingFailed + campaignOrder + ` LIMIT $15::bigint) UNION ALL
			(SELECT d.*` + matchingDead + campaignOrder + ` LIMIT $15) UNION ALL
			(SELECT d.*` + matchingRebuilding + campaignOrder + ` LIMIT $15)
		) d` + campaignOrder + ` LIMIT $15`

	// queryCount reads what matches.
	queryCount = `SELECT count(*) FROM (
			(SELECT` + matchingFailed + `) UNION ALL (SELECT` + matchingDead + `) UNION ALL (SELECT` +
		matchingRebuilding + `) LIMIT $15::bigint
		) d`

	// queryCampaign and queryStack probe the primary key.
	queryCampaign = `SELECT ` + campaignColumns + ` FROM tidemark.deferred d
		WHERE d.campaign_id = $1 AND d.projection = $2`
	queryStack = `SELECT coalesce(d.error_stack, '') FROM tidemark.deferred d WHERE d.campaign_id = $1
		AND d.projection = $2`

	// queryCandidates finds what queryList does, for an act. It locks nothing.
	queryCandidates = `SELECT` + standing + ` FROM (
			(SELECT` + standing + matchingFailed + campaignOrder + ` LIMIT $15::bigint) UNION ALL
			(SELECT` + standing + matchingDead + campaignOrder + ` LIMIT $15)
		) d` + campaignOrder + ` LIMIT $15`

	standing = ` d.projection, d.campaign_id, d.consumer_group, d.next_seq, d.status, d.next_attempt_at`

	// queryTake locks those of the candidates that are as they were found, one after the other, by the
	// primary key. It passes by those that are being written: no act waits for another, and of two
	// operators at once only one gets a pair.
	queryTake = `SELECT n.ord - 1
		FROM unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[]) WITH ORDINALITY AS n (campaign_id, projection,
			next_seq, next_attempt_at, ord)
		CROSS JOIN LATERAL (
			SELECT true AS taken FROM tidemark.deferred d
			WHERE d.campaign_id = n.campaign_id AND d.projection = n.projection AND d.next_seq = n.next_seq
				AND d.next_attempt_at = n.next_attempt_at
				AND d.status IN ('failed', 'dead')
			FOR UPDATE SKIP LOCKED
		) d
		ORDER BY n.ord`

	// queryLockOne locks one row by its primary key, queryLockSeq those of a campaign that stand
	// before an event and have failed, in the order of the key. They wait for writers.
	queryLockOne = `SELECT` + standing + ` FROM tidemark.deferred d WHERE d.campaign_id = $1
		AND d.projection = $2 FOR UPDATE`
	queryLockSeq = `SELECT` + standing + ` FROM tidemark.deferred d
		WHERE d.campaign_id = $1 AND d.next_seq = $2 AND ($3 = '' OR d.consumer_group = $3)
			AND d.status IN ('failed', 'dead') ORDER BY d.projection FOR UPDATE`

	// The acts. They write pairs that the transaction has locked, by their primary key, and the log.
	// What becomes due does so in the order in which it is named.
	queryRequeue = `WITH ` + named + `UPDATE tidemark.deferred d SET status = 'failed', attempt_count = 0,
		next_attempt_at = o.due` + logged + `NULL, 'requeued'` + inOrder

	// queryResolve moves pairs on by one event. What a row says of the error was about the event that is skipped.
	queryResolve = `WITH ` + named + `UPDATE tidemark.deferred d SET status = 'rebuilding', next_seq = o.next_seq + 1,
		attempt_count = 0, next_attempt_at = o.due, ` + forgotten + logged + `o.error_message, 'resolved'` + inOrder

	named = `old AS MATERIALIZED (
			SELECT d.*, n.ord, now() - (cardinality($1::text[]) - n.ord) * interval '1 microsecond' AS due
			FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS n (campaign_id, projection, ord)
			CROSS JOIN LATERAL (SELECT d.ctid AS place, d.* FROM tidemark.deferred d WHERE d.campaign_id = n.campaign_id
				AND d.projection = n.projection OFFSET 0) d
		), acted AS (
			`

	logged = `
			FROM old o WHERE d.ctid = o.place
		)
		INSERT INTO tidemark.failure_log (consumer_group, projection, projection_version, campaign_id, seq, event_id,
			event_type, attempt,
			error_class, error_code, fingerprint, actor, reason, error_message, act)
		SELECT o.consumer_group, o.projection, o.projection_version, o.campaign_id, o.next_seq, o.event_id, o.event_type,
			o.attempt_count,
			o.error_class, o.error_code, o.fingerprint, $3, nullif($4, ''), `

	inOrder = ` FROM old o ORDER BY o.ord`

	// queryHistory walks failure_log_pair_idx for a pair, and the primary key for the whole log,
	// backwards; both have the order.
	queryHistory = `SELECT l.id, l.at, l.act, l.consumer_group, coalesce(l.projection, ''),
		coalesce(l.projection_version, 0), coalesce(l.campaign_id, ''), coalesce(l.seq, 0),
			l.event_id, coalesce(l.event_type, ''), coalesce(l.attempt, 0), coalesce(l.error_class, ''),
				coalesce(l.error_code, ''), coalesce(l.error_message, ''),
			coalesce(l.error_stack, ''), coalesce(l.fingerprint, ''), coalesce(l.worker, ''), coalesce(l.actor, ''),
				coalesce(l.reason, '')
		FROM tidemark.failure_log l
		WHERE ($1 = '' OR l.consumer_group = $1) AND ($2 = '' OR l.projection = $2) AND ($3 = '' OR l.campaign_id = $3)
			AND ($4 = '' OR l.fingerprint = $4)
			AND ($5 = '' OR l.actor = $5) AND ($6::text[] IS NULL OR l.act = ANY ($6)) AND ($7::bigint = 0 OR l.id < $7)
		ORDER BY l.id DESC LIMIT $8`
)
