package failed

// Operators' views and acts. Statements with a filter take its arguments $1 to $15 (Filter.args)
// and are planned for them, so only the conditions that are set remain. Failed and dead campaigns
// come in the order of failed_failures_idx. Those that catch up are all read, since they are many
// only briefly.
const (
	campaignColumns = `d.projection, d.campaign_id, d.consumer_group, coalesce(d.projection_version, 0), d.next_seq,
		d.status, d.attempt_count, ` + due + `, d.event_id,
		coalesce(d.event_type, ''), coalesce(d.error_class, ''), coalesce(d.error_code, ''), coalesce(d.error_message, ''),
			coalesce(d.fingerprint, ''),
		d.first_failed_at, d.last_failed_at, coalesce(d.worker, ''), d.reset`

	// due is zero for campaigns that wait for an operator.
	due = `coalesce(nullif(d.next_attempt_at, 'infinity'), '0001-01-01 00:00Z')`

	campaignOrder = ` ORDER BY next_attempt_at, next_seq, campaign_id, projection`

	matches = ` = ANY ($1::text[]) AND ($2 = '' OR d.consumer_group = $2)
		AND ($3 = '' AND d.projection NOT LIKE '%~previous' OR d.projection = $3)
		AND ($4 = '' OR d.campaign_id = $4)
		AND ($5 = '' OR d.event_type = $5) AND ($6 = '' OR d.error_class = $6) AND ($7 = '' OR d.error_code = $7)
			AND ($8 = '' OR d.fingerprint = $8)
		AND ($9::interval = '0' OR d.first_failed_at <= now() - $9::interval
			OR d.first_failed_at IS NULL AND d.status <> 'catching_up')` + afterPlace

	nextFailures = `(
			SELECT d.* FROM (
				(SELECT d.* FROM tidemark.failed d WHERE d.status = 'failed'
					AND 'failed' = ANY ($1::text[])` + afterPlace + campaignOrder + ` LIMIT $16::integer) UNION
					ALL
				(SELECT d.* FROM tidemark.failed d WHERE d.status = 'dead'
					AND 'dead' = ANY ($1)` + afterPlace + campaignOrder + ` LIMIT $16)
			) d` + campaignOrder + ` LIMIT $16
		)`

	afterPlace = ` AND (NOT $10::boolean OR (d.next_attempt_at, d.next_seq, d.campaign_id,
		d.projection) > ($11::timestamptz, $12::bigint, $13, $14))`

	matchingFailed = ` FROM tidemark.failed d WHERE d.status = 'failed' AND 'failed'` + matches
	matchingDead   = ` FROM tidemark.failed d WHERE d.status = 'dead' AND 'dead'` + matches
	matchingBehind = ` FROM tidemark.failed d WHERE d.status = 'catching_up' AND 'catching_up'` + matches

	// chosen reads at most $15 rows of each status.
	chosen = ` FROM (
			(SELECT d.*` + matchingFailed + campaignOrder + ` LIMIT $15::bigint) UNION ALL
			(SELECT d.*` + matchingDead + campaignOrder + ` LIMIT $15) UNION ALL
			(SELECT d.*` + matchingBehind + campaignOrder + ` LIMIT $15)
		) d` + campaignOrder + ` LIMIT $15`

	queryList = `SELECT ` + campaignColumns + chosen

	// queryCandidates is queryList for an act. It locks nothing.
	queryCandidates = `SELECT` + standing + chosen

	queryCount = `SELECT count(*) FROM (
			(SELECT` + matchingFailed + `) UNION ALL (SELECT` + matchingDead + `) UNION ALL (SELECT` +
		matchingBehind + `) LIMIT $15::bigint
		) d`

	// queryCampaign and queryStack probe the primary key.
	queryCampaign = `SELECT ` + campaignColumns + ` FROM tidemark.failed d
		WHERE d.campaign_id = $1 AND d.projection = $2`
	queryStack = `SELECT coalesce(d.error_stack, '') FROM tidemark.failed d WHERE d.campaign_id = $1
		AND d.projection = $2`

	queryAcross = `SELECT EXISTS (SELECT FROM tidemark.projections p WHERE p.name = $1 AND p.scope = 'journal')`

	standing = ` ` + due + `, d.next_seq, d.projection, d.campaign_id, d.consumer_group, d.status`

	// queryPlaces probes the primary key once per campaign. It locks nothing.
	queryPlaces = `SELECT` + standing + `
		FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS n (campaign_id, projection, next_seq, ord)
		CROSS JOIN LATERAL (
			SELECT d.* FROM tidemark.failed d
			WHERE d.campaign_id = n.campaign_id AND d.projection = n.projection AND d.next_seq = n.next_seq
				AND d.status IN ('failed', 'dead') OFFSET 0
		) d
		ORDER BY n.ord`

	// queryTake locks the unchanged candidates one after the other, by the primary key. It skips rows
	// that are being written: no act waits for another, and of two operators only one gets a campaign.
	queryTake = `SELECT n.ord - 1
		FROM unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[]) WITH ORDINALITY AS n (campaign_id, projection,
			next_seq, next_attempt_at, ord)
		CROSS JOIN LATERAL (
			SELECT true AS taken FROM tidemark.failed d
			WHERE d.campaign_id = n.campaign_id AND d.projection = n.projection AND d.next_seq = n.next_seq
				AND d.next_attempt_at = n.next_attempt_at
				AND d.status IN ('failed', 'dead')
			FOR UPDATE SKIP LOCKED
		) d
		ORDER BY n.ord`

	// queryLockOne locks one row by its primary key. queryLockSeq locks a campaign's rows that failed
	// at one event, in the order of the key. Both wait for writers.
	queryLockOne = `SELECT` + standing + ` FROM tidemark.failed d WHERE d.campaign_id = $1
		AND d.projection = $2 FOR UPDATE`
	queryLockSeq = `SELECT` + standing + ` FROM tidemark.failed d
		WHERE d.campaign_id = $1 AND d.next_seq = $2 AND ($3 = '' OR d.consumer_group = $3)
			AND d.status IN ('failed', 'dead') AND d.projection NOT LIKE '%~previous' ORDER BY d.projection FOR UPDATE`

	// The acts. They write locked rows by their primary key, and the log. Campaigns become due in the order named.
	queryRequeue = `WITH ` + named + `UPDATE tidemark.failed d SET status = 'failed', attempt_count = 0,
		next_attempt_at = o.due` + logged + `NULL, 'requeued'` + inOrder

	// queryResolve moves campaigns on by one event and clears the details of the failure at the skipped event.
	queryResolve = `WITH ` + named + `UPDATE tidemark.failed d SET status = 'catching_up', next_seq = o.next_seq + 1,
		attempt_count = 0, next_attempt_at = o.due, ` + forgotten + logged + `o.error_message, 'resolved'` + inOrder

	named = `old AS MATERIALIZED (
			SELECT d.*, n.ord, now() - (cardinality($1::text[]) - n.ord) * interval '1 microsecond' AS due
			FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS n (campaign_id, projection, ord)
			CROSS JOIN LATERAL (SELECT d.ctid AS place, d.* FROM tidemark.failed d WHERE d.campaign_id = n.campaign_id
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

	// queryHistory walks failure_log_pair_idx for one failed campaign, else the primary key, backwards in their order.
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

// Replays. The leases are locked first; then each row is found by one probe of the primary key per
// campaign. What to replay is chosen before.
const (
	// queryReplayable reads the registry: the projections that have tables, and for each the tables
	// without a text column campaign_id. Requested or withdrawn projections have nothing to replay.
	// Those across campaigns are replayed by name.
	queryReplayable = `SELECT p.name, p.state, p.scope = 'journal', (
			SELECT count(*) FROM tidemark.readers r WHERE r.topic = p.name AND r.kind = 'projection'
		), p.own_reset, cardinality(p.table_names), ARRAY(
			SELECT format('%I.%I', p.schema_name, t.name) FROM unnest(p.table_names) AS t (name)
			WHERE NOT EXISTS (
				SELECT FROM pg_catalog.pg_class c
				JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
				JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
				JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
				WHERE n.nspname = p.schema_name AND c.relname = t.name AND a.attname = 'campaign_id' AND y.typcategory = 'S'
			))
		FROM tidemark.projections p WHERE p.consumer_group = $1 AND p.state <> 'requested'
			AND ($2 = '' AND p.scope = 'campaign' OR p.name = $2)
			ORDER BY p.name`

	// queryReplayableNow also locks the rows FOR SHARE, so copying, swapping or withdrawing the tables
	// waits for the transaction. Replays do not wait for each other.
	queryReplayableNow = queryReplayable + ` FOR SHARE OF p`

	// queryNoCampaign probes the journal's primary key once per campaign.
	queryNoCampaign = `SELECT c.campaign_id FROM unnest($1::text[]) AS c (campaign_id)
		WHERE NOT EXISTS (SELECT FROM tidemark.journal j WHERE j.campaign_id = c.campaign_id OFFSET 0) LIMIT 1`

	// queryReplay files campaigns, or moves their rows back. A row before the replay's first event
	// stays where it is, or events in between would be skipped; a pending reset stays pending. A
	// campaign that has not reached the event needs no replay. $7 and $8 are each projection's first
	// event and whether its rows are deleted first.
	queryReplay = `WITH wanted AS MATERIALIZED (
			SELECT c.campaign_id, p.projection, p.first, p.reset
			FROM unnest($2::text[]) AS c (campaign_id) CROSS JOIN LATERAL (
				SELECT l.checkpoint FROM tidemark.leases l WHERE l.consumer_group = $1 AND l.campaign_id = c.campaign_id OFFSET 0
			) l
			CROSS JOIN unnest($3::text[], $7::bigint[], $8::boolean[]) AS p (projection, first, reset)
			WHERE l.checkpoint >= greatest($4::bigint, 1)
		)` + filing

	// queryReplayKeys is queryReplay for keys of a projection across campaigns.
	queryReplayKeys = `WITH wanted AS MATERIALIZED (
			SELECT c.campaign_id, p.projection, p.first, p.reset
			FROM unnest($2::text[]) AS c (campaign_id)
			CROSS JOIN unnest($3::text[], $7::bigint[], $8::boolean[]) AS p (projection, first, reset)
			WHERE $4::bigint = 0
		)` + filing

	filing = `, filed AS (
			INSERT INTO tidemark.failed AS d (campaign_id, projection, consumer_group, next_seq, status, next_attempt_at,
				reset)
			SELECT w.campaign_id, w.projection, $1, w.first, 'catching_up', now(), w.reset
			FROM wanted w ORDER BY w.campaign_id, w.projection
			ON CONFLICT (campaign_id, projection) DO UPDATE SET
				next_seq = least(d.next_seq, excluded.next_seq), status = 'catching_up', attempt_count = 0,
					next_attempt_at = now(),
				reset = d.reset OR excluded.reset, ` + forgotten + `
			RETURNING d.campaign_id, d.projection, d.next_seq
		), logged AS (
			INSERT INTO tidemark.failure_log (act, consumer_group, projection, campaign_id, seq, actor, reason)
			SELECT 'replayed', $1, f.projection, f.campaign_id, f.next_seq, $5, nullif($6, '') FROM filed f
				ORDER BY f.campaign_id, f.projection
		)
		SELECT count(*) FROM filed`

	// queryForgetKeys deletes the other rows of a set of tables that is applied again as a whole.
	queryForgetKeys = `DELETE FROM tidemark.failed d WHERE d.consumer_group = $1 AND d.projection = $2`

	// queryMovedCampaigns walks the leases' primary key.
	queryMovedCampaigns = `SELECT l.campaign_id FROM tidemark.leases l
		WHERE l.consumer_group = $1 AND l.campaign_id > $2 AND l.checkpoint > 0 ORDER BY l.consumer_group, l.campaign_id
			LIMIT $3`

	// queryCountCampaigns reads the group's leases, or probes the named ones.
	queryCountCampaigns = `SELECT count(*) FROM tidemark.leases l
		WHERE l.consumer_group = $1 AND l.checkpoint >= greatest($2::bigint, 1)
			AND ($3::text[] IS NULL OR l.campaign_id = ANY ($3))`
)

// Resolutions. Acts lock registry rows, then leases, then rows of tidemark.failed. Reads walk the primary key.
const (
	// queryKeepSets locks registry rows of one projection, or all, FOR SHARE: beginning a rebuild,
	// swapping or withdrawing tables waits for the transaction. Acts do not wait for each other.
	queryKeepSets = `SELECT p.consumer_group, p.name, p.scope = 'journal' FROM tidemark.projections p
		WHERE $1 = '' OR p.name IN ($1, $1 || '~next', $1 || '~previous') ORDER BY p.name FOR SHARE`

	// queryBeyond returns the sets of tables that have passed the events: their rows may hold the
	// event's effect, or lack it. A joining set has no rows yet. Across campaigns, a partition that
	// is held back as a whole (the key '-') stands before its event, also once that is resolved.
	queryBeyond = `SELECT DISTINCT p.consumer_group, p.name, e.campaign_id
		FROM unnest($1::text[], $2::text[], $3::bigint[]) AS e (campaign_id, projection, seq)
		CROSS JOIN LATERAL unnest(ARRAY[e.projection, e.projection || '~next', e.projection || '~previous']) AS s (name)
		CROSS JOIN LATERAL (
			SELECT p.name, p.consumer_group, p.state, p.scope FROM tidemark.projections p WHERE p.name = s.name
				AND p.state <> 'requested' OFFSET 0
		) p
		LEFT JOIN LATERAL (
			SELECT d.next_seq, d.status FROM tidemark.failed d
			WHERE d.campaign_id = e.campaign_id AND d.projection = p.name OFFSET 0
		) d ON true
		WHERE CASE WHEN p.scope = 'journal' AND e.campaign_id = '-' AND d.status = 'catching_up'
				THEN d.next_seq - 1 > e.seq
			WHEN d.next_seq IS NOT NULL THEN d.next_seq > e.seq
			WHEN p.scope = 'journal' THEN EXISTS (
				SELECT FROM tidemark.readers r WHERE r.topic = p.name AND r.kind = 'projection' AND r.position >= e.seq)
			ELSE p.state <> 'joining' AND EXISTS (
				SELECT FROM tidemark.leases l WHERE l.consumer_group = p.consumer_group AND l.campaign_id = e.campaign_id
					AND l.checkpoint >= e.seq) END
		ORDER BY p.consumer_group, p.name, e.campaign_id`

	// querySiblings locks the rows of the projections' other sets that failed at the same events.
	querySiblings = `SELECT` + standing + `
		FROM unnest($1::text[], $2::text[], $3::bigint[]) AS e (campaign_id, projection, seq)
		CROSS JOIN LATERAL unnest(ARRAY[e.projection, e.projection || '~next', e.projection || '~previous']) AS s (name)
		CROSS JOIN LATERAL (
			SELECT * FROM tidemark.failed d
			WHERE d.campaign_id = e.campaign_id AND d.projection = s.name AND d.next_seq = e.seq
				AND d.status IN ('failed', 'dead')
			FOR UPDATE
		) d`

	queryInsertResolutions = `INSERT INTO tidemark.resolutions (campaign_id, projection, seq, actor, reason)
		SELECT e.campaign_id, e.projection, e.seq, $4, $5
		FROM unnest($1::text[], $2::text[], $3::bigint[]) AS e (campaign_id, projection, seq)
			ORDER BY e.campaign_id, e.projection, e.seq
		ON CONFLICT DO NOTHING`

	queryUnresolve = `WITH gone AS (
			DELETE FROM tidemark.resolutions r WHERE r.campaign_id = $1 AND r.projection = $2 AND r.seq = $3 RETURNING r.reason
		)
		INSERT INTO tidemark.failure_log (act, consumer_group, projection, campaign_id, seq, actor, reason)
		SELECT 'unresolved', $4, $2, $1, $3, $5, $6 FROM gone`

	resolutionColumns = `r.campaign_id, r.projection, r.seq, r.actor, r.reason, r.resolved_at`

	// queryResolutions walks the primary key, or resolutions_projection_idx, for one page.
	queryResolutions = `SELECT ` + resolutionColumns + ` FROM tidemark.resolutions r
		WHERE ($1 = '' OR r.projection = $1) AND ($2 = '' OR r.campaign_id = $2)
			AND (r.campaign_id, r.projection, r.seq) > ($3, $4, $5)
		ORDER BY r.campaign_id, r.projection, r.seq LIMIT $6`

	queryResolutionsOf = `SELECT ` + resolutionColumns + `
		FROM unnest($2::text[]) AS c (campaign_id) CROSS JOIN LATERAL (
			SELECT * FROM tidemark.resolutions r WHERE r.campaign_id = c.campaign_id AND r.projection = $1 OFFSET 0
		) r
		ORDER BY r.campaign_id, r.seq`

	queryCountResolutions = `SELECT count(*) FROM tidemark.resolutions r WHERE r.projection = $1`

	// queryLeftOut probes the primary key once per campaign. queryLeftOutBetween walks a range of it.
	queryLeftOut = `SELECT r.projection, r.campaign_id, r.seq
		FROM unnest($1::text[]) AS c (campaign_id) CROSS JOIN LATERAL (
			SELECT r.projection, r.campaign_id, r.seq FROM tidemark.resolutions r WHERE r.campaign_id = c.campaign_id OFFSET 0
		) r`
	queryLeftOutBetween = `SELECT r.projection, r.campaign_id, r.seq FROM tidemark.resolutions r
		WHERE r.projection = $1 AND r.campaign_id > $2 AND r.campaign_id <= $3`

	queryResolvedAhead = `SELECT EXISTS (SELECT FROM tidemark.resolutions r WHERE r.projection = $2 AND NOT EXISTS (
		SELECT FROM tidemark.leases l WHERE l.consumer_group = $1 AND l.campaign_id = r.campaign_id
			AND l.checkpoint >= r.seq OFFSET 0))`
)
