package lease

// The functions and their locks stand in migrations/functions: leases.sql, claims.sql, crashes.sql and
// projections.sql. All lock leases in the order of campaign_id. Claims skip rows that are being
// written and do not wait.
const (
	// queryClaim walks the outbox's primary key from campaign to campaign and stops at the limit. It
	// counts the entries of the index that it met on the way.
	queryClaim = `SELECT (s.c).campaign_ids, (s.c).generations, (s.c).checkpoints, (s.c).next_cursor,
			(s.c).next_expiry, (s.c).crashed_ids, s.met - s.before, 0, NULL::text[], ''
		FROM (SELECT ` + met + ` AS before, tidemark.claim($1, $2, $3, $4, $5) AS c, ` + met + ` AS met OFFSET 0) s`

	met = `pg_stat_get_xact_tuples_returned('tidemark.outbox_pkey'::regclass)`

	// queryClaimAhead is queryClaim that also stores its result for later statements on the
	// connection, before the client has read it (tidemark.claimed_campaigns and claimed_checkpoints).
	queryClaimAhead = `SELECT s.*, set_config('tidemark.claimed_campaigns', s.campaign_ids::text, false),
			set_config('tidemark.claimed_checkpoints', s.checkpoints::text, false)
		FROM (` + queryClaim + `) s`

	// queryClaimRecent reads a part of the journal by position, and probes the primary keys once per campaign.
	queryClaimRecent = `SELECT campaign_ids, generations, checkpoints, next_cursor, next_expiry, crashed_ids,
			dead, next_since, known_ids, next_after
		FROM tidemark.claim_recent($1, $2, $3, $4, $5, $6, $7, $8)`

	// queryClaimBehind walks the partial index on due retries and stops at the limit.
	queryClaimBehind = `SELECT campaign_ids, generations, checkpoints, '', next_due, crashed_ids, 0, 0, NULL::text[], ''
		FROM tidemark.claim_failed($1, $2, $3, $4, $5)`

	// queryTakeOver locks and writes one row per campaign, by the primary key.
	queryTakeOver = `SELECT campaign_id, generation, checkpoint FROM tidemark.take_over($1, $2, $3, $4, $5)`

	// queryAdvance probes the primary key once per lease and updates it in place (HOT).
	queryAdvance = `SELECT tidemark.advance($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`

	// queryRenew probes the primary key twice per lease and skips rows that are being written.
	queryRenew = `SELECT campaign_id FROM tidemark.renew($1, $2, $3, $4, $5)`

	// queryStillHeld probes the primary key once per lease and locks it briefly. It skips rows that are being written.
	queryStillHeld = `SELECT l.campaign_id FROM unnest($3::text[], $4::bigint[], $5::bigint[]) AS u (campaign_id,
		generation, checkpoint) CROSS JOIN LATERAL (
			SELECT * FROM tidemark.leases l WHERE l.consumer_group = $1 AND l.campaign_id = u.campaign_id FOR UPDATE SKIP LOCKED
		) l
		WHERE l.owner = $2 AND l.generation = u.generation AND l.checkpoint = u.checkpoint`

	// queryRelease probes the primary key once per lease.
	queryRelease = `SELECT tidemark.release($1, $2, $3, $4)`

	// queryBeat writes one row by its primary key; no other owner writes it. An owner believed dead
	// removes itself from the small table crashes. Rows that a claim is writing wait for the next
	// beat.
	queryBeat = `WITH alive AS (
			UPDATE tidemark.crashes c SET owners = array_remove(c.owners, $1)
			WHERE c.ctid = ANY (ARRAY(SELECT d.ctid FROM tidemark.crashes d WHERE d.consumer_group = $2 AND $1 = ANY (d.owners)
				FOR UPDATE SKIP LOCKED))
		)
		INSERT INTO tidemark.workers AS w (owner, consumer_group, host, pid, started_at, seen_at, campaigns_held,
			events_applied, knows, lease_ttl, statements)
		VALUES ($1, $2, $3, $4, now(), now(), $5, $6, coalesce(nullif($7, ''), '{}')::jsonb, $8,
			coalesce(nullif($9, ''), '{}')::jsonb)
		ON CONFLICT (owner) DO UPDATE SET seen_at = now(), lease_ttl = excluded.lease_ttl,
			campaigns_held = excluded.campaigns_held, events_applied = excluded.events_applied
		RETURNING drained_by IS NOT NULL`

	// queryDrain writes one row by its primary key. The worker's next beat waits for it.
	queryDrain = `UPDATE tidemark.workers SET drained_by = nullif($2, '') WHERE owner = $1`

	// queryForget deletes the row of a stopping worker, and rows not seen for a day.
	queryForget = `DELETE FROM tidemark.workers WHERE owner = $1 OR seen_at < now() - interval '1 day'`

	// queryWorkers reads a table with one row per worker.
	queryWorkers = `SELECT owner, consumer_group, host, pid, started_at, seen_at, campaigns_held, events_applied,
		coalesce(drained_by, ''), knows FROM tidemark.workers ORDER BY started_at, owner`

	// queryVersions reads a table with one row per worker.
	queryVersions = `SELECT k.name, v.version::integer FROM tidemark.workers w,
		jsonb_each(w.knows) AS k (name, versions), jsonb_array_elements_text(k.versions) AS v (version)
		WHERE w.consumer_group = $1 AND w.seen_at > clock_timestamp() - interval '1 minute' GROUP BY 1, 2 ORDER BY 1, 2`

	// queryWait moves only a sequence. It need not survive a crash, so it does not wait for the disk.
	queryWait = `SELECT tidemark.wait_for_work($1), set_config('synchronous_commit', 'off', true)`

	// queryWake reads a sequence and notifies if a worker waits.
	queryWake = `SELECT tidemark.wake()`

	// queryAwake ends a wait unless another has begun.
	queryAwake = `SELECT tidemark.end_wait($1), set_config('synchronous_commit', 'off', true)`

	// queryTell reads a sequence and notifies if a program waits for projections. Like tidemark.wake it
	// respects tidemark.notify: a transaction that is to be prepared must not notify.
	queryTell = `SELECT pg_notify('tidemark_applied', '')
		WHERE pg_sequence_last_value('tidemark.awaited') > extract(epoch FROM clock_timestamp()) * 1000
			AND coalesce(current_setting('tidemark.notify', true), '') <> 'off'`
)

// A dead process releases nothing: its leases expire. The claim that finds one checks whether its
// owner is dead, and records that in tidemark.crashes (note_crashes in
// migrations/functions/crashes.sql). The transaction that gets the campaign further deletes the row.
const (
	// querySuspects probes the primary key of crashes once per campaign. It counts unexplained deaths
	// in the small tables crashes and workers.
	querySuspects = `SELECT c.campaign_id, cardinality(c.owners) AS crashes, tried.n AS marked,
		coalesce(last.mark ->> 'projection', '') AS projection,
			coalesce((last.mark ->> 'seq')::bigint, 0) AS seq, hit.n AS deaths, (
				SELECT count(*) FROM tidemark.workers w
				WHERE w.consumer_group = $1 AND w.owner <> $4 AND w.seen_at BETWEEN now() - interval '1 hour'
					AND now() - $3::interval
					AND NOT EXISTS (SELECT FROM tidemark.crashes m WHERE m.consumer_group = $1 AND m.marks ? w.owner)
			) AS unexplained
		FROM unnest($2::text[]) AS u (campaign_id) CROSS JOIN LATERAL (
			SELECT * FROM tidemark.crashes c WHERE c.consumer_group = $1 AND c.campaign_id = u.campaign_id OFFSET 0
		) c
		CROSS JOIN LATERAL (SELECT count(*) AS n FROM unnest(c.owners) AS o WHERE c.marks ? o) tried
		LEFT JOIN LATERAL (SELECT c.marks -> c.owners[cardinality(c.owners)] AS mark) last ON true
		CROSS JOIN LATERAL (SELECT count(*) AS n FROM unnest(c.owners) AS o WHERE c.marks -> o IN ('{}', last.mark)) hit`

	// queryMark writes one row by its primary key, if the caller holds the lease. It commits, so the
	// mark outlives the process. It does not wait for the disk, because losing a mark in a server
	// crash is harmless. It replaces the owner's earlier mark; marks of dead owners stay.
	queryMark = `UPDATE tidemark.crashes c SET marks = c.marks || jsonb_build_object($2::text,
			CASE WHEN $5::text = '' THEN '{}' ELSE jsonb_build_object('projection', $5::text, 'seq', $6::bigint) END)
		WHERE c.consumer_group = $1 AND c.campaign_id = $3
			AND EXISTS (SELECT FROM tidemark.leases l WHERE l.consumer_group = $1 AND l.campaign_id = $3 AND l.owner = $2
				AND l.generation = $4)
		RETURNING set_config('synchronous_commit', 'off', true)`

	queryUnmark = `UPDATE tidemark.crashes c SET marks = c.marks - $2::text WHERE c.consumer_group = $1
		AND c.campaign_id = $3 AND c.marks ? $2`

	// querySurvived probes the primary key once per campaign. Only the lease's holder writes the row.
	querySurvived = `DELETE FROM tidemark.crashes c WHERE c.consumer_group = $1 AND c.campaign_id = ANY ($2)`

	// queryExplained deletes the worker records of processes that died on a campaign, by their primary key.
	queryExplained = `DELETE FROM tidemark.workers w WHERE w.consumer_group = $1 AND w.owner = ANY (ARRAY(
			SELECT unnest(c.owners) FROM tidemark.crashes c WHERE c.consumer_group = $1 AND c.campaign_id = $2))`
)

const (
	// theirs matches another owner's live duty. An expiry beyond what its owner could have asked for
	// dates from before the server's clock went back, so it does not count.
	theirs = `d.owner <> $2 AND d.expires_at > clock_timestamp()
			AND d.expires_at <= clock_timestamp() + $3::interval + interval '1 s'`

	// queryTakeDuty runs once every few seconds. It probes the primary key and writes one row unless
	// another owner has the duty. Losing it in a crash is harmless, so it does not wait for the disk.
	queryTakeDuty = `INSERT INTO tidemark.duties AS d (name, owner, expires_at)
		SELECT $1, $2, clock_timestamp() + $3::interval FROM set_config('synchronous_commit', 'off', true)
		WHERE NOT EXISTS (SELECT FROM tidemark.duties d WHERE d.name = $1 AND ` + theirs + `)
		ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
			WHERE NOT (` + theirs + `)`

	queryDropDuty = `DELETE FROM tidemark.duties WHERE name = $1 AND owner = $2`
)

// queryFence probes the primary key once per campaign and locks the leases, in the order of
// campaign_id, until the transaction ends.
const queryFence = `SELECT tidemark.fence($1, $2)`

// Views of leases. They lock nothing.
const (
	// queryApplied reads all leases of a group.
	queryApplied = `SELECT coalesce(sum(checkpoint), 0)::bigint FROM tidemark.leases WHERE consumer_group = $1`

	// querySuspectCounts reads an index that is nearly always empty.
	querySuspectCounts = `SELECT c.consumer_group, count(*) FROM tidemark.crashes c WHERE cardinality(c.owners) > 0
		GROUP BY c.consumer_group`

	queryList = `SELECT l.consumer_group, l.campaign_id, l.owner, l.generation,
		nullif(nullif(l.expires_at, '-infinity'), 'infinity'), l.expires_at > clock_timestamp(), l.checkpoint
		FROM tidemark.leases l WHERE l.consumer_group = $1 AND l.campaign_id > $2 ORDER BY l.campaign_id LIMIT $3`

	// queryCheckpoints probes the primary key once per campaign.
	queryCheckpoints = `SELECT c.campaign_id, l.checkpoint FROM unnest($2::text[]) AS c (campaign_id) CROSS JOIN LATERAL (
			SELECT l.checkpoint FROM tidemark.leases l WHERE l.consumer_group = $1 AND l.campaign_id = c.campaign_id OFFSET 0
		) l`
)

const (
	// queryPause writes one lease by its primary key.
	queryPause = `INSERT INTO tidemark.leases AS l (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
		VALUES ($1, $2, $3, 1, coalesce(now() + $4::interval, 'infinity'), 0)
		ON CONFLICT (consumer_group, campaign_id) DO UPDATE
			SET owner = excluded.owner, generation = l.generation + 1, expires_at = excluded.expires_at`

	// queryUnpause writes one lease by its primary key, if an operator has it.
	queryUnpause = `UPDATE tidemark.leases SET owner = '', generation = generation + 1, expires_at = '-infinity'
		WHERE consumer_group = $1 AND campaign_id = $2 AND owner = $3`
)

// queryPlaces probes the primary key of leases once per consumer group, and that of workers once per owner.
const queryPlaces = `SELECT l.consumer_group, l.owner, l.generation, CASE
	WHEN isfinite(l.expires_at) THEN l.expires_at END, l.expires_at > clock_timestamp(), l.checkpoint,
	coalesce(w.host, ''), coalesce(w.pid, 0)
	FROM tidemark.consumer_groups g
	JOIN tidemark.leases l ON l.consumer_group = g.name AND l.campaign_id = $1
	LEFT JOIN tidemark.workers w ON w.owner = l.owner
	ORDER BY l.consumer_group`

const (
	queryProved = `SELECT count(*), coalesce(sum(applied), 0)::bigint, count(*) FILTER (WHERE applied_hash IS NULL)
		FROM tidemark.leases WHERE consumer_group = $1 AND checkpoint > 0`

	// queryUnproved reads the journal up to the checkpoints once, and joins it to the leases.
	queryUnproved = `SELECT l.campaign_id, l.checkpoint, l.applied, coalesce(j.events, 0),
		coalesce(l.applied_hash = coalesce(j.hash, 0), true)
		FROM tidemark.leases l LEFT JOIN (
			SELECT j.campaign_id, (count(*) + coalesce(sum((j.metadata #>> '{$archived,removed}')::bigint)
					FILTER (WHERE j.event_version = 0), 0))::bigint AS events, bit_xor(uuid_hash_extended(j.event_id, 0))
				# coalesce(bit_xor((j.metadata #>> '{$archived,removed_hash}')::bigint)
					FILTER (WHERE j.event_version = 0), 0) AS hash
			FROM tidemark.journal j JOIN tidemark.leases c ON c.consumer_group = $1 AND c.campaign_id = j.campaign_id
				AND j.seq <= c.checkpoint
			GROUP BY j.campaign_id
		) j ON j.campaign_id = l.campaign_id
		WHERE l.consumer_group = $1 AND (l.applied <> coalesce(j.events, 0) OR l.applied_hash <> coalesce(j.hash, 0)
			OR l.checkpoint <> l.applied)
		ORDER BY l.campaign_id`
)
