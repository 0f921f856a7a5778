package feed

// eventColumns sends NULL for the most common values: every value sent costs a conversion.
const eventColumns = eventHead + `payload, metadata` + eventTail

const (
	eventHead = `campaign_id, seq, "position", event_id, event_type, nullif(event_version, 1),
	nullif(intent, 'projection_and_replay')::text, aggregate_type, aggregate_id, actor, tags, `
	eventTail = `, nullif(occurred_at, recorded_at), recorded_at`
)

// queryCampaignPage reads a page of the primary key, until payloads reach $4 bytes. It takes no lock.
const queryCampaignPage = `SELECT ` + eventColumns + ` FROM (
		SELECT j.*, sum(j.payload_bytes) OVER (ORDER BY j.seq ROWS UNBOUNDED PRECEDING) - j.payload_bytes AS before
		FROM (SELECT * FROM tidemark.journal WHERE campaign_id = $1 AND seq > $2 ORDER BY seq LIMIT $3) j
	) e WHERE before < $4 ORDER BY seq`

// queryFloor reads one sequence and the lock table; both are in memory.
const queryFloor = `SELECT tidemark.read_floor()`

// queryFloorOf is queryFloor with the history.
const queryFloorOf = `SELECT tidemark.read_floor(), coalesce(tidemark.history(), '')`

// queryResume is queryFloor, with the position from which a cursor goes on, and the instance.
// queryResumeKeeping also makes sure of the history, so that a cursor can name it, and notes the writer
// floor. It waits for no standby: until one has the row, it bounds the cursor by an earlier note.
const (
	queryResume = `SELECT tidemark.resume($1, $2), tidemark.read_floor(), coalesce(tidemark.instance(), '')`

	queryResumeKeeping = `SELECT tidemark.resume($1, $2), tidemark.read_floor(), coalesce(tidemark.keep_history(), '')
		FROM set_config('synchronous_commit', 'local', true)`
)

// queryLastBefore walks a campaign backwards, over the events after a position.
const queryLastBefore = `SELECT coalesce((SELECT seq FROM tidemark.journal WHERE campaign_id = $1 AND "position" <= $2
	ORDER BY seq DESC LIMIT 1), 0)`

// queryPresent reads one row.
const queryPresent = `SELECT coalesce(tidemark.instance(), '')`

// queryJournalPage reads a page of the index on position, behind its mark. Send it after queryFloor has
// returned $2. The check for archived events is made once.
const (
	queryJournalPage  = `SELECT ` + markOf + `0::bigint` + markEnd + smallPage + requirePositions + smallPageEnd
	smallPage         = eventColumns + ` FROM tidemark.journal WHERE "position" > $1 AND "position" <= $2`
	smallPageEnd      = ` ORDER BY "position" LIMIT $3)`
	requirePositions  = ` AND tidemark.require_positions($1, $2)`
	queryMarkedPage   = `SELECT ` + markOf + archiveMark + markEnd + smallPage + smallPageEnd
	queryMarkedWindow = `SELECT ` + markOf + archiveMark + markEnd + window + windowEnd
)

// markOf begins a row before the events of a page, of the same snapshot: its campaign is
// tidemark.instance, and its seq is tidemark.archive_mark where archives are read too.
const (
	markOf  = `coalesce(tidemark.instance(), ''), `
	markEnd = `, 0::bigint, '00000000-0000-0000-0000-000000000000'::uuid, '', 0, NULL, NULL, NULL, NULL, NULL::text[],
	NULL::jsonb, NULL::jsonb, NULL::timestamptz, now() UNION ALL (SELECT `
	archiveMark = `tidemark.archive_mark($1, $2)`
)

// queryGet probes the primary key: the event, or the stub that stands for it. Its ORDER BY rules out
// other indexes, even while the planner believes the table is empty.
const queryGet = `SELECT ` + eventColumns + ` FROM tidemark.journal WHERE campaign_id = $1 AND seq >= $2
	ORDER BY seq LIMIT 1`

// queryFind probes two indexes.
const queryFind = `SELECT ` + eventColumns + ` FROM tidemark.find_event($1, $2)`

// groupCampaigns is the campaigns in $1, past the seqs in $2 and up to those in $3 (NULL: no
// bound). If $1 and $2 are NULL, it is the campaigns that the preceding claim on the connection
// leased, past their checkpoints.
const groupCampaigns = `unnest(coalesce($1::text[], tidemark.claimed_campaigns()),
	coalesce($2::bigint[], tidemark.claimed_checkpoints()), $3::bigint[])`

// queryReadHeads finds the last event of each campaign's range by one probe of the primary key, and
// whether the campaign is archived. It takes no lock.
const queryReadHeads = `SELECT c.ord, j.seq, j.event_version = 0
	FROM ` + groupCampaigns + ` WITH ORDINALITY AS c (campaign_id, after, until, ord)
	CROSS JOIN LATERAL (
		(SELECT j.seq, j.event_version FROM tidemark.journal j
		WHERE j.campaign_id = c.campaign_id AND j.seq > c.after AND j.seq <= coalesce(c.until, 9223372036854775807)
		ORDER BY j.seq DESC
		LIMIT 1)
		UNION ALL
		SELECT s.seq, s.event_version FROM ` + stubBeyond + ` s WHERE s.event_version = 0
	) j
	ORDER BY c.ord, j.seq`

// stubBeyond is the event after a range that has an end: if it is a stub, it stands for events of the range too.
const stubBeyond = `(SELECT j.* FROM tidemark.journal j WHERE c.until < 9223372036854775807
				AND j.campaign_id = c.campaign_id AND j.seq > c.until ORDER BY j.seq LIMIT 1)`

// queryReadHashes returns the number of each campaign's events and the hash of their ids. It reads
// one range of the primary key for each campaign, up to $4 events in all, and takes no lock.
const queryReadHashes = `SELECT e.ord, count(*), bit_xor(e.hash), bool_or(e.stub)
	FROM (
		SELECT c.ord, uuid_hash_extended(j.event_id, 0) AS hash, j.event_version = 0 AS stub
		FROM ` + groupCampaigns + ` WITH ORDINALITY AS c (campaign_id, after, until, ord)
		CROSS JOIN LATERAL (
			(SELECT j.event_id, j.event_version FROM tidemark.journal j
			WHERE j.campaign_id = c.campaign_id AND j.seq > c.after AND j.seq <= coalesce(c.until, 9223372036854775807)
			ORDER BY j.seq
			LIMIT $4)
			UNION ALL
			SELECT s.event_id, s.event_version FROM ` + stubBeyond + ` s WHERE s.event_version = 0
		) j
		LIMIT $4
	) e
	GROUP BY e.ord ORDER BY e.ord`

// groupColumns is eventColumns without the campaign, which the caller knows.
const groupColumns = `ord, payload_bytes, seq, "position", event_id, event_type, nullif(event_version, 1),
	nullif(intent, 'projection_and_replay')::text, aggregate_type, aggregate_id, actor, ` + documents + `occurred_at,
	recorded_at), recorded_at`

// groupRanges and groupBounded read one range of the primary key for each campaign, in order, up to
// $4 events in all. groupBounded is for ranges that may end before a stub.
const (
	groupRanges  = groupHead + groupRange + groupTail
	groupBounded = groupHead + groupRange + ` UNION ALL SELECT s.seq, s."position", s.event_id, s.event_type,
				s.event_version, s.intent, s.aggregate_type, s.aggregate_id, s.actor, s.tags, s.payload, s.metadata,
				s.payload_bytes, s.occurred_at, s.recorded_at
			FROM ` + stubBeyond + ` s WHERE s.event_version = 0` + groupTail

	groupHead = groupCampaigns + ` WITH ORDINALITY AS c (campaign_id, after, until, ord)
		CROSS JOIN LATERAL (
			`
	groupRange = `(SELECT j.seq, j."position", j.event_id, j.event_type, j.event_version, j.intent, j.aggregate_type,
				j.aggregate_id, j.actor, j.tags, j.payload, j.metadata, j.payload_bytes, j.occurred_at, j.recorded_at
			FROM tidemark.journal j
			WHERE j.campaign_id = c.campaign_id AND j.seq > c.after AND j.seq <= coalesce(c.until, 9223372036854775807)
			ORDER BY j.seq
			LIMIT $4)`
	groupTail = `
		) j
		LIMIT $4`
)

// queryReadGroup reads what a worker applies next, up to $5 bytes. payload_bytes lets it skip
// payloads that are not sent. It takes no lock.
const (
	queryReadGroup        = `SELECT ` + groupRunning + groupRanges + groupUpTo
	queryReadGroupBounded = `SELECT ` + groupRunning + groupBounded + groupUpTo

	groupRunning = groupColumns + `
	FROM (
		SELECT c.ord, j.*, sum(j.payload_bytes) OVER (ROWS UNBOUNDED PRECEDING) - j.payload_bytes AS before
		FROM `
	groupUpTo = `
	) e
	WHERE before < $5`
)

// queryReadSmall is queryReadGroup without the byte limit, which costs a quarter of the read: its
// running sum copies every row.
const (
	queryReadSmall        = `SELECT ` + groupColumns + ` FROM ` + groupRanges
	queryReadSmallBounded = `SELECT ` + groupColumns + ` FROM ` + groupBounded
)

// queryReadCampaigns walks the primary key from a place to the end of a campaign, through all
// campaigns between. It leaves out events that are not for projections, unless they are stubs. It takes no lock.
const queryReadCampaigns = `SELECT ` + eventColumns + ` FROM tidemark.journal
	WHERE (campaign_id, seq) > ($1::text, $2::bigint) AND campaign_id <= $3
		AND (intent = 'projection_and_replay' OR event_version = 0)
	ORDER BY campaign_id, seq LIMIT $4`

// queryReadCampaignsOf is queryReadCampaigns for events of some types.
const queryReadCampaignsOf = `SELECT ` + eventColumns + ` FROM tidemark.journal
	WHERE (campaign_id, seq) > ($1::text, $2::bigint) AND campaign_id <= $3
		AND (intent = 'projection_and_replay' AND event_type = ANY ($5::text[]) OR event_version = 0)
	ORDER BY campaign_id, seq LIMIT $4`

const (
	// queryCampaigns steps along the primary key from campaign to campaign, up to $3 with the prefix
	// and after $2. Its cost depends only on what it returns. It takes no lock.
	queryCampaigns = `WITH RECURSIVE walk AS (
			(SELECT j.campaign_id, 1 AS steps FROM tidemark.journal j WHERE j.campaign_id >= $1 AND j.campaign_id > $2
				ORDER BY j.campaign_id LIMIT 1)
			UNION ALL
			SELECT n.campaign_id, w.steps + 1
			FROM walk w CROSS JOIN LATERAL (
				SELECT j.campaign_id FROM tidemark.journal j WHERE j.campaign_id > w.campaign_id ORDER BY j.campaign_id LIMIT 1
			) n
			WHERE w.steps < $3 AND starts_with(w.campaign_id, $1)
		)
		SELECT campaign_id FROM walk WHERE starts_with(campaign_id, $1) ORDER BY campaign_id`

	// queryLast reads the end of the campaign's range of the primary key.
	queryLast = `SELECT ` + eventColumns + ` FROM tidemark.journal WHERE campaign_id = $1 ORDER BY seq DESC LIMIT 1`

	// queryListCampaign reads a range of the primary key, until payloads reach $4 bytes. It takes no lock.
	queryListCampaign = `SELECT ` + listColumns + ` FROM (
			SELECT j.*, sum(j.payload_bytes) OVER (ORDER BY j.seq ROWS UNBOUNDED PRECEDING) - j.payload_bytes AS before
			FROM (SELECT * FROM tidemark.journal WHERE campaign_id = $1 AND seq >= $2 ORDER BY seq LIMIT $3) j
		) e WHERE before < $4 OR $5 ORDER BY seq`

	// queryListMatches reads from $2 up to $6 or the writer floor, which the function reads in an earlier
	// statement, until payloads reach $4 bytes.
	queryListMatches = `SELECT ` + listColumns + ` FROM (
			SELECT j.*, sum(j.payload_bytes) OVER (ORDER BY j."position" ROWS UNBOUNDED PRECEDING) - j.payload_bytes AS before
			FROM tidemark.read($1::jsonb, $2, $3, $6) j
		) e WHERE before < $4 OR $5 ORDER BY "position"`

	// queryMatches reads ranges of the index on tags, then probes one event by position for each
	// row. The ORDER BY rules out other indexes. It takes no lock.
	queryMatches = `SELECT ` + eventColumns + ` FROM (
			SELECT j.* FROM tidemark.query_matches($1::jsonb, $2, $3, $4) m
			CROSS JOIN LATERAL (SELECT * FROM tidemark.journal j WHERE j."position" BETWEEN m."position" AND m."position"
				ORDER BY j."position" LIMIT 1) j
		) e ORDER BY "position"`
)

// queryOldestAppend returns the transaction that has held the writer floor (0x7D01 in
// migrations/functions/locks.sql) longest. It reads the lock table and statistics, and takes no lock.
const queryOldestAppend = `WITH held AS MATERIALIZED (
		SELECT l.pid, l.virtualtransaction FROM pg_locks l
		WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND (l.classid::bigint >> 16) = 32001
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	), holders AS (
		SELECT a.xact_start AS since, a.pid, format('SELECT pg_terminate_backend(%s)', a.pid) AS remedy,
			format('process %s of %s, %s', a.pid,
				coalesce(nullif(a.application_name, ''), 'an application without a name'), a.state) AS holder
		FROM held h JOIN pg_stat_activity a USING (pid)
		UNION ALL
		SELECT x.prepared, 0, format('ROLLBACK PREPARED %L', x.gid), format('prepared transaction %L', x.gid)
		FROM held h
		JOIN pg_locks t ON h.pid IS NULL AND t.pid IS NULL AND t.locktype = 'transactionid'
			AND t.virtualtransaction = h.virtualtransaction
		JOIN pg_prepared_xacts x ON x.transaction = t.transactionid
		ORDER BY 1 LIMIT 1
	)
	SELECT coalesce(clock_timestamp() - max(since), interval '0'), coalesce(max(pid), 0),
		coalesce(max(holder), ''), coalesce(max(remedy), '')
	FROM holders`

const (
	// queryProgress reads the lock table, then the sequence, which is therefore never behind the floor, and
	// the instance.
	queryProgress = `SELECT f.floor, p.last_value, coalesce(tidemark.instance(), '')
		FROM (SELECT tidemark.read_floor() AS floor OFFSET 0) f
		CROSS JOIN LATERAL (SELECT last_value FROM tidemark.journal_position WHERE f.floor IS NOT NULL) p`

	// QueryErased reads a mark in the server's memory, which grows when events have been erased.
	QueryErased = `SELECT last_value FROM tidemark.erased`

	// queryPositionAt bisects the index on position for a time 10 s earlier, because appends
	// overtake each other, and walks the index from there. It takes no lock.
	queryPositionAt = `WITH RECURSIVE bisection AS (
			SELECT 1::bigint AS low, $1::bigint + 1 AS high
			UNION ALL
			SELECT CASE WHEN e.early THEN e."position" + 1 ELSE b.low END, CASE WHEN e.early THEN b.high ELSE m.middle END
			FROM bisection b CROSS JOIN LATERAL (SELECT b.low + (b.high - b.low) / 2 AS middle) m
			LEFT JOIN LATERAL (
				SELECT j."position", j."position" <= $1 AND j.recorded_at < $2::timestamptz - interval '10 s' AS early
				FROM tidemark.journal j WHERE j."position" >= m.middle ORDER BY j."position" LIMIT 1
			) e ON true
			WHERE b.low < b.high
		)
		SELECT coalesce((
			SELECT least(j."position" - 1, $1) FROM tidemark.journal j
			WHERE j."position" >= (SELECT max(low) FROM bisection) AND j.recorded_at >= $2 ORDER BY j."position" LIMIT 1
		), $1) WHERE tidemark.require_positions(coalesce((SELECT min(a.first_position) - 1 FROM tidemark.archives a
			WHERE a.campaigns > 0 AND a.last_recorded >= $2::timestamptz), $1), $1)`

	// queryCampaignRange reads a range of the primary key, and a stub that may stand for events before $3.
	queryCampaignRange = `SELECT ` + eventColumns + ` FROM tidemark.journal WHERE campaign_id = $1 AND seq >= $2
		AND ("position" <= $3 OR event_version = 0) ORDER BY seq LIMIT $4`
)

// queryAnyArchived probes the index on stubs, which is small while few campaigns are archived.
const queryAnyArchived = `SELECT EXISTS (SELECT FROM tidemark.journal WHERE event_version = 0 AND campaign_id > $1
	AND campaign_id <= $2)`

// queryWindow is queryJournalPage that stops, after the first event, once payloads reach $4 bytes.
// payload_bytes lets it skip payloads that are not sent.
const (
	queryWindow = `SELECT ` + markOf + `0::bigint` + markEnd + window + requirePositions + windowEnd
	window      = eventColumns + ` FROM (
		SELECT j.*, sum(j.payload_bytes) OVER (ORDER BY j."position" ROWS UNBOUNDED PRECEDING) - j.payload_bytes AS before
		FROM (SELECT * FROM tidemark.journal WHERE "position" > $1 AND "position" <= $2`
	windowEnd = ` ORDER BY "position" LIMIT $3) j
	) e WHERE before < $4 ORDER BY "position")`
)

// queryRowSecurity returns tables of Tidemark whose policies apply to this role or to the owner, or with
// $1 to any role.
const queryRowSecurity = `SELECT format('%s.%I', c.relnamespace::regnamespace, c.relname)
	FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'tidemark'
	WHERE c.relrowsecurity AND ($1 OR c.relforcerowsecurity OR pg_catalog.row_security_active(c.oid)) ORDER BY 1`
