package publications

// Acts and views of operators. Each takes the lock of a pair's row, or of parked rows in key order,
// for a moment. Queries that move a position raise the generation, so a relay that is publishing
// the pair writes nothing more.
const (
	queryLock = `SELECT status FROM tidemark.readers WHERE topic = $1 AND publisher = $2
		AND kind = 'publisher' FOR UPDATE`

	queryPause = `UPDATE tidemark.readers SET status = 'PAUSED', actor = $3, reason = $4,
			paused_until = CASE WHEN $5::bigint > 0 THEN clock_timestamp() + $5::bigint * interval '1 microsecond'
				ELSE 'infinity' END
		WHERE topic = $1 AND publisher = $2`

	queryResume = `UPDATE tidemark.readers SET status = 'ACTIVE', actor = NULL, reason = NULL,
		paused_until = 'infinity', next_attempt_at = '-infinity' WHERE topic = $1 AND publisher = $2`

	queryPlace = `SELECT p.position, j.last_value FROM tidemark.readers p CROSS JOIN tidemark.journal_position j
		WHERE p.topic = $1 AND p.publisher = $2 AND p.kind = 'publisher'`

	// queryBetween counts a range of the index on position.
	queryBetween = `SELECT count(*) FROM tidemark.journal WHERE "position" > $1 AND "position" <= $2`

	queryForgetParked = `DELETE FROM tidemark.parked WHERE topic = $1 AND publisher = $2 AND position > $3`

	queryReset = `UPDATE tidemark.readers SET position = $3, generation = generation + 1, status = 'ACTIVE',
		actor = NULL, reason = NULL, paused_until = 'infinity',
			error_count = 0, last_error = NULL, last_error_at = NULL, failing_since = NULL, next_attempt_at = '-infinity',
				expires_at = '-infinity'
		WHERE topic = $1 AND publisher = $2`

	// queryRecord takes the detail as text, which every exec mode of pgx sends as is; 'null': none.
	queryRecord = `SELECT tidemark.log_act($1, $2, $3, $4, $5, $6, $7::bigint,
		nullif($8::text, 'null')::jsonb, $9, $10::bigint, $11)`

	// queryList reads one row a pair. The pairs share the $3 events that are read. Each reads its parked
	// rows up to $3, and its ghosts, which are few.
	queryList = `SELECT p.topic, p.publisher, CASE WHEN p.status = 'PAUSED'
		AND p.paused_until <= clock_timestamp() THEN 'ACTIVE' ELSE p.status END, p.position,
			l.events, coalesce(clock_timestamp() - l.since, interval '0'), l.estimated,
			p.error_count, coalesce(p.last_error, ''), p.last_error_at, p.failing_since, CASE
				WHEN p.next_attempt_at > clock_timestamp() THEN p.next_attempt_at END,
			k.parked, k.retrying, coalesce(p.reason, ''), coalesce(p.actor, ''), nullif(p.paused_until, 'infinity'),
				p.published_count, p.last_published_at,
			CASE WHEN p.expires_at > clock_timestamp() THEN coalesce(r.host || '/' || r.pid, p.owner)
				ELSE '' END, p.generation, p.created_at,
			g.ghosts, g.seen_at
		FROM tidemark.readers p LEFT JOIN tidemark.relays r ON r.owner = p.owner
		CROSS JOIN LATERAL tidemark.reader_lag(p.position, p.takes, (SELECT greatest($3 / count(*), 500)::integer
			FROM tidemark.readers WHERE kind = 'publisher')) l
		CROSS JOIN LATERAL (
			SELECT count(*) FILTER (WHERE status = 'parked') AS parked, count(*) FILTER (WHERE status <> 'parked') AS retrying
			FROM (SELECT status FROM tidemark.parked WHERE topic = p.topic AND publisher = p.publisher LIMIT $3) q
		) k
		CROSS JOIN LATERAL (SELECT count(*) AS ghosts, max(seen_at) AS seen_at FROM tidemark.ghosts WHERE topic = p.topic
			AND publisher = p.publisher) g
		WHERE p.kind = 'publisher' AND ($1 = '' OR p.topic = $1) AND ($2 = '' OR p.publisher = $2)
		ORDER BY p.topic, p.publisher`

	// queryLog walks the primary key backwards.
	queryLog = `SELECT id, at, actor, act, coalesce(reason, ''), coalesce(topic, ''), coalesce(publisher, ''),
		coalesce(campaign_id, ''), coalesce(seq, 0), detail,
			coalesce(way, ''), coalesce(token_id, 0), coalesce(address, ''), database_user
		FROM tidemark.operator_log
		WHERE ($1 = '' OR topic = $1) AND ($2 = '' OR publisher = $2) AND ($3 = '' OR campaign_id = $3)
			AND ($4 = '' OR actor = $4)
			AND (coalesce(cardinality($5::text[]), 0) = 0 OR act = ANY ($5)) AND ($6::bigint = 0 OR id < $6)
		ORDER BY id DESC LIMIT $7`

	// queryPruneLog locks the head of the log. Acts that commit meanwhile wait up to 300 ms, and then
	// leave their records for the next one to link. It reads all ghosts, which are few.
	queryPruneLog = `WITH ghosts AS (DELETE FROM tidemark.ghosts WHERE seen_at < clock_timestamp() - interval '30 days')
		SELECT tidemark.prune_log($1::interval, $2)`

	// queryLinkLog is queryPruneLog for no rows.
	queryLinkLog = `SELECT tidemark.prune_log('1 day', 0)`
	// queryUnlinked returns the first record that is not linked, or 0. It reads the unique index on link.
	queryUnlinked = `SELECT coalesce(min(id), 0) FROM tidemark.operator_log WHERE link IS NULL`

	parkedFilter = `($1 = '' OR topic = $1) AND ($2 = '' OR publisher = $2) AND ($3 = '' OR campaign_id = $3)
		AND ($4::bigint = 0 OR seq = $4) AND ($5 = '' OR event_type = $5)
		AND ($6 = '' OR status = $6) AND ($7 = '' OR error_message ~ $7)
		AND ($9::timestamptz IS NULL OR (coalesce(first_failed_at, 'infinity'), topic, publisher, campaign_id, seq) > ($9,
			$10, $11, $12, $13::bigint))`

	queryListParked = `SELECT topic, publisher, campaign_id, seq, holds, position, status, attempt_count,
		next_attempt_at, event_id, coalesce(event_type, ''), coalesce(error_message, ''),
			first_failed_at, last_failed_at
		FROM tidemark.parked WHERE
			` + parkedFilter + ` ORDER BY coalesce(first_failed_at, 'infinity'), topic, publisher,
			campaign_id, seq LIMIT $8`

	// queryCountParked counts what acts would lock.
	queryCountParked = `SELECT count(*) FROM (SELECT FROM tidemark.parked WHERE status <> 'draining'
		AND ` + parkedFilter + ` LIMIT $8) k`

	queryRetry = `UPDATE tidemark.parked SET status = 'retrying', attempt_count = 0, next_attempt_at = clock_timestamp()
		WHERE topic = $1 AND publisher = $2 AND campaign_id = $3 AND seq = $4 AND holds = $5`

	// queryResolve moves the campaign past the event.
	queryResolve = `UPDATE tidemark.parked SET seq = seq + 1, status = 'draining', attempt_count = 0,
		next_attempt_at = clock_timestamp(), event_id = NULL, event_type = NULL,
			error_message = NULL, first_failed_at = NULL, last_failed_at = NULL
		WHERE topic = $1 AND publisher = $2 AND campaign_id = $3 AND seq = $4 AND holds AND $5`

	// queryResolveFree deletes events that hold back no others.
	queryResolveFree = `DELETE FROM tidemark.parked WHERE topic = $1 AND publisher = $2 AND campaign_id = $3 AND seq = $4
		AND NOT holds AND NOT $5`
)

// queryLockKeys locks rows by the primary key, in its order. It skips rows that others are writing.
const queryLockKeys = `SELECT k.topic, k.publisher, k.campaign_id, k.seq, k.holds
	FROM (SELECT DISTINCT u.topic, u.publisher, u.campaign_id, u.seq
		FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS u (topic, publisher, campaign_id, seq)
		ORDER BY 1, 2, 3, 4) u
	CROSS JOIN LATERAL (
		SELECT k.* FROM tidemark.parked k
		WHERE k.topic = u.topic AND k.publisher = u.publisher AND k.campaign_id = u.campaign_id AND k.seq = u.seq
			AND k.status <> 'draining'
		FOR UPDATE SKIP LOCKED
	) k`

// queryOutcomes probes the primary key once an event. It takes no lock.
const queryOutcomes = `SELECT count(*) FILTER (WHERE p.status IS NULL),
		count(*) FILTER (WHERE p.attempt_count > 0 OR p.status = 'parked')
	FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS n (topic, publisher, campaign_id, seq)
	LEFT JOIN LATERAL (
		SELECT p.status, p.attempt_count FROM tidemark.parked p WHERE p.topic = n.topic AND p.publisher = n.publisher
			AND p.campaign_id = n.campaign_id AND p.seq = n.seq AND p.status <> 'draining' LIMIT 1
	) p ON true`

const (
	// queryWalkParked reads a range of the primary key, up to $11 rows. It leaves out the error
	// texts of rows that do not match.
	queryWalkParked = `SELECT k.matches, k.topic, k.publisher, k.campaign_id, k.seq, k.holds, k.position, k.status,
		k.attempt_count, k.next_attempt_at, k.event_id,
			coalesce(k.event_type, ''), CASE WHEN k.matches THEN coalesce(k.error_message, '')
				ELSE '' END, k.first_failed_at, k.last_failed_at
		FROM (
			SELECT p.*, ($3 = '' OR p.campaign_id = $3) AND ($4 = '' OR p.event_type = $4)
				AND ($5 = '' OR p.status = $5) AS matches
			FROM tidemark.parked p
			WHERE ($1 = '' OR p.topic = $1) AND ($2 = '' OR p.publisher = $2)
				AND (p.topic, p.publisher, p.campaign_id, p.seq, p.holds) > ($6, $7, $8, $9::bigint, $10::boolean)
			ORDER BY p.topic, p.publisher, p.campaign_id, p.seq, p.holds LIMIT $11::integer
		) k ORDER BY k.topic, k.publisher, k.campaign_id, k.seq, k.holds`

	// queryListGhosts walks the primary key and probes three indexes of the journal for each row. Of an
	// archived event the journal has no id.
	queryListGhosts = `SELECT g.topic, g.publisher, g.campaign_id, g.event_id, g.seq, g.position, g.seen_at,
			CASE WHEN EXISTS (SELECT FROM tidemark.find_event(g.campaign_id, g.event_id) OFFSET 0)
					THEN '` + GhostAgain + `'
				WHEN tidemark.is_archived(g.campaign_id, g.seq, 0) THEN '` + GhostArchived + `'
				WHEN EXISTS (SELECT FROM tidemark.journal j WHERE j.campaign_id = g.campaign_id AND j.seq = g.seq OFFSET 0)
					THEN '` + GhostAnother + `'
				ELSE '` + GhostNothing + `' END
		FROM tidemark.ghosts g
		WHERE ($1 = '' OR g.topic = $1) AND ($2 = '' OR g.publisher = $2)
			AND (g.topic, g.publisher, g.position, g.campaign_id, g.event_id) > ($4, $5, $6::bigint, $7, $8::text::uuid)
		ORDER BY g.topic, g.publisher, g.position, g.campaign_id, g.event_id LIMIT $3`

	// queryNotify wakes relays after pairs became free or an operator acted, unless the NOTIFY queue fills. It is rare.
	queryNotify = `SELECT pg_notify('tidemark_relay', '') WHERE tidemark.may_notify()`
)
