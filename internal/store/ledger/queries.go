package ledger

// The functions are in migrations/functions/readers.sql and operator_log.sql with the locks they
// take. All lock rows of readers in the order of topic and publisher.
const (
	queryRegister = `INSERT INTO tidemark.readers (topic, publisher, position, kind) SELECT u.*, $4
		FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u ORDER BY 1, 2 ON CONFLICT DO NOTHING`

	// querySetTakes writes rows by their primary key, in its order, if they differ. Most starts write none.
	querySetTakes = `UPDATE tidemark.readers r SET takes = u.takes
		FROM (SELECT r.topic, r.publisher, u.takes::jsonb AS takes
			FROM unnest($1::text[], $2::text[], $3::text[]) AS u (topic, publisher, takes)
			JOIN tidemark.readers r USING (topic, publisher)
			WHERE r.kind = 'publisher' AND r.takes IS DISTINCT FROM u.takes::jsonb
			ORDER BY r.topic, r.publisher FOR UPDATE OF r) u
		WHERE r.topic = u.topic AND r.publisher = u.publisher`

	// queryRegistered reads one row a pair.
	queryRegistered = `SELECT topic, publisher FROM tidemark.readers`

	// queryBeat writes one row by its primary key. No other relay writes that row.
	queryBeat = `INSERT INTO tidemark.relays AS r (owner, host, pid, knows, seen_at, expires_at, pairs_held)
		VALUES ($1, $2, $3, $4, clock_timestamp(), clock_timestamp() + $5::interval, $6)
		ON CONFLICT (owner) DO UPDATE SET knows = excluded.knows, seen_at = excluded.seen_at,
			expires_at = excluded.expires_at, pairs_held = excluded.pairs_held`

	// queryForget deletes the row of a relay that stops, and those of relays not seen for a day.
	queryForget = `DELETE FROM tidemark.relays WHERE owner = $1 OR seen_at < now() - interval '1 day'`

	// queryRelays reads one row a process. A relay seen in the future died before the server's clock
	// went back; a live one updates its row within a second.
	queryRelays = `SELECT owner, knows FROM tidemark.relays
		WHERE expires_at > clock_timestamp() AND seen_at <= clock_timestamp() + interval '1 s' ORDER BY owner`

	// queryPairs reads one row a pair, and the last assigned position. It reads that after the rows'
	// snapshot, so it is never behind a valid position. A lease that runs for longer than $1, the
	// caller's own, is free unless its owner lives: see tidemark.claim_readers.
	queryPairs = `SELECT p.topic, p.publisher, p.position, p.status = 'ACTIVE' OR p.status = 'PAUSED'
		AND p.paused_until <= clock_timestamp(), p.owner, p.generation, p.expires_at > clock_timestamp()
		AND (p.expires_at <= clock_timestamp() + $1::interval + interval '1 s'
				OR EXISTS (SELECT FROM tidemark.relays r WHERE r.owner = p.owner
					AND r.seen_at <= clock_timestamp() + interval '1 s' AND r.expires_at > clock_timestamp())), j.last_value
		FROM tidemark.readers p CROSS JOIN tidemark.journal_position j WHERE p.kind = $2`

	// queryInstance reads a row or two. Once a second one session writes one row, whose lock it does not
	// wait for; if a failover or a restore has begun a new history, one more. Others wait for that, 300 ms.
	queryInstance = `SELECT tidemark.keep_history()`

	// queryClaim locks and writes free rows by their primary key. It waits for no lock.
	queryClaim = `SELECT topic, publisher, generation, position, error_count, wait, deaths, marked
		FROM tidemark.claim_readers($1, $2, $3, $4)`

	// queryMove locks and writes rows by their primary key, in place (HOT). It contends only with
	// operators, for a moment. It writes nothing if the database is not the instance that the caller read.
	queryMove = `SELECT m.topic, m.publisher FROM (SELECT $1::text AS owner WHERE tidemark.instance() = $9 OFFSET 0) o
		CROSS JOIN LATERAL tidemark.move_readers(o.owner, $2, $3, $4, $5, $6, $7, $8) m`

	// queryAdvance is the fence of a projection across campaigns: it writes one row by its primary key, or
	// fails the transaction. Only operators contend for the row.
	queryAdvance = `SELECT tidemark.advance_reader($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`

	// queryMark writes one row by its primary key. Deaths at the same mark go on counting.
	queryMark = `UPDATE tidemark.readers SET marked = $5, deaths = CASE WHEN marked = -$5::bigint THEN deaths ELSE 0 END
		WHERE topic = $1 AND publisher = $2 AND owner = $3 AND generation = $4 AND tidemark.instance() = $6`

	// queryLockPlaces locks the places of sets of tables for an act of an operator. Their holders lock
	// one row each, for a moment. queryRetake and queryRewind write the locked rows.
	queryLockPlaces = `SELECT FROM tidemark.readers WHERE topic = ANY ($1::text[]) AND kind = 'projection'
		ORDER BY topic, publisher FOR UPDATE`
	queryRetake = `UPDATE tidemark.readers SET generation = generation + 1, expires_at = '-infinity'
		WHERE topic = ANY ($1::text[]) AND kind = 'projection'`
	queryRewind = `UPDATE tidemark.readers SET generation = generation + 1, expires_at = '-infinity', position = 0,
			applied = 0, applied_hash = 0
		WHERE topic = ANY ($1::text[]) AND kind = 'projection'`

	// queryReacts reads one row by its primary key. querySetReacts writes rows that were just registered.
	queryReacts    = `SELECT reacts_after FROM tidemark.readers WHERE topic = $1 AND publisher = $2`
	querySetReacts = `UPDATE tidemark.readers SET reacts_after = coalesce($2, (SELECT last_value
		FROM tidemark.journal_position)) WHERE topic = $1 AND kind = 'projection'`

	// queryRename writes one row a partition, under the registry's lock. It removes the owner, who may hold
	// the row that had the name before in the same generation.
	queryRename = `UPDATE tidemark.readers SET topic = $2, owner = '', generation = generation + 1,
			expires_at = '-infinity'
		WHERE topic = $1 AND kind = 'projection'`
	queryUnregister = `DELETE FROM tidemark.readers WHERE topic = $1 AND kind = 'projection'`
	queryReached    = `SELECT coalesce(max(position), 0) FROM tidemark.readers WHERE topic = $1 AND kind = 'projection'`

	// queryBehind walks the journal's index on position, up to $3 entries. The partitions of a process
	// are compared one by one: they may not pass those that react.
	queryBehind = `SELECT count(*) FROM (SELECT FROM (
			SELECT n.position AS after, t.position AS until FROM tidemark.readers n JOIN tidemark.readers t USING (publisher)
			WHERE n.topic = $1 AND t.topic = $2 AND n.kind = 'projection' AND t.kind = 'projection'
				AND t.reacts_after IS NOT NULL
			UNION ALL
			SELECT min(n.position), max(t.position) FROM tidemark.readers n CROSS JOIN tidemark.readers t
			WHERE n.topic = $1 AND t.topic = $2 AND n.kind = 'projection' AND t.kind = 'projection'
				AND t.reacts_after IS NULL
		) r CROSS JOIN LATERAL (SELECT FROM tidemark.journal j WHERE j.position > r.after AND j.position <= r.until
			ORDER BY j.position LIMIT $3) j LIMIT $3) x`

	// queryReactOn writes one row a partition, which the caller has locked: a process goes on where its
	// live tables had reacted to. The others have not passed them.
	queryReactOn = `UPDATE tidemark.readers r SET reacts_after = (SELECT max(o.position) FROM tidemark.readers o
			WHERE o.topic = ANY ($2) AND o.publisher = r.publisher AND o.kind = 'projection')
		WHERE r.topic = $1 AND r.kind = 'projection' AND EXISTS (SELECT FROM tidemark.readers o
			WHERE o.topic = ANY ($2) AND o.kind = 'projection' AND o.reacts_after IS NOT NULL)`

	// queryUnreacted probes indexes of failed.
	queryUnreacted = `SELECT EXISTS (SELECT FROM tidemark.readers r WHERE r.topic = $1 AND r.kind = 'projection'
			AND r.reacts_after IS NOT NULL) AND EXISTS (SELECT FROM tidemark.failed d WHERE d.projection = $1)`

	queryPosition = `SELECT position FROM tidemark.readers WHERE topic = $1 AND publisher = $2`

	// queryStandStill leaves readers alone whom those of $1 cannot pass: an event holds back a whole partition.
	queryStandStill = `UPDATE tidemark.readers SET owner = '', generation = generation + 1,
			expires_at = clock_timestamp() + $3::interval
		WHERE topic = $2 AND kind = 'projection' AND NOT EXISTS (SELECT FROM tidemark.readers n
			WHERE n.topic = $1 AND n.expires_at <= clock_timestamp())
			AND NOT EXISTS (SELECT FROM tidemark.failed d WHERE d.campaign_id = '-' AND d.projection = $1)
		RETURNING publisher`

	// queryPlaces reads one row a partition. The partitions share the $1 events that are read.
	queryPlaces = `SELECT p.consumer_group, p.name, substr(r.publisher, 2)::integer, r.position,
			l.events, coalesce(clock_timestamp() - l.since, interval '0'), l.estimated, k.keys, k.first,
			CASE WHEN r.expires_at > clock_timestamp() THEN coalesce(w.host || '/' || w.pid, r.owner) ELSE '' END
		FROM tidemark.readers r JOIN tidemark.projections p ON p.name = r.topic
		LEFT JOIN tidemark.relays w ON w.owner = r.owner
		CROSS JOIN LATERAL tidemark.reader_lag(r.position, p.takes, (SELECT greatest($1::integer / count(*), 500)::integer
			FROM tidemark.readers WHERE kind = 'projection')) l
		CROSS JOIN LATERAL tidemark.keys_behind(p.consumer_group, p.name, $1::integer) k
		WHERE r.kind = 'projection' ORDER BY 2, 3`

	// queryHeld reads a range of the primary key's partial index.
	queryHeld = `SELECT topic, publisher, campaign_id FROM tidemark.parked h
		WHERE holds AND (topic, publisher) IN (SELECT * FROM unnest($1::text[], $2::text[]))`

	// queryFail writes one row by its primary key, if it is still the caller's. A count of 0: the sink
	// recovered. statement_timestamp() makes the times of the first and the last error equal at first.
	queryFail = `UPDATE tidemark.readers SET error_count = $5, last_error = $6,
			last_error_at = statement_timestamp(),
			failing_since = CASE WHEN $5 > 0 THEN coalesce(failing_since, statement_timestamp()) END,
			next_attempt_at = clock_timestamp() + $7::interval
		WHERE topic = $1 AND publisher = $2 AND owner = $3 AND generation = $4`

	// queryHalt is queryFail for errors that need an operator. It ends the lease.
	queryHalt = `UPDATE tidemark.readers SET status = $5, reason = $6, last_error = $6,
		last_error_at = statement_timestamp(), error_count = error_count + 1,
			failing_since = coalesce(failing_since, statement_timestamp()), actor = NULL, paused_until = 'infinity',
				expires_at = '-infinity'
		WHERE topic = $1 AND publisher = $2 AND owner = $3 AND generation = $4`

	// queryAhead writes one row by its primary key, if the journal has still not assigned its position.
	queryAhead = `UPDATE tidemark.readers p SET status = 'FAILED', reason = $3, last_error = $3,
		last_error_at = statement_timestamp(), error_count = error_count + 1,
			failing_since = coalesce(failing_since, statement_timestamp()), generation = generation + 1, actor = NULL,
				paused_until = 'infinity', expires_at = '-infinity'
		WHERE topic = $1 AND publisher = $2 AND status = 'ACTIVE'
			AND position > (SELECT last_value FROM tidemark.journal_position)`

	// queryFence locks a pair's row while the caller writes its parked rows, if the database is still
	// the instance that the caller read.
	queryFence = `SELECT FROM tidemark.readers WHERE topic = $1 AND publisher = $2 AND owner = $3
		AND generation = $4 AND tidemark.instance() = $5 FOR UPDATE`

	// lastErasure is the one that has taken something of event $4 of campaign $3, by the primary key. What an event
	// that was read before it says must not be written after it.
	lastErasure = `(SELECT j.metadata ->> '$erased' FROM tidemark.journal j WHERE j.campaign_id = $3 AND j.seq = $4)`

	// queryPark adds a refused event, or overwrites the row that held its campaign before.
	queryPark = `INSERT INTO tidemark.parked AS p (topic, publisher, campaign_id, seq, holds, position, event_id,
		event_type, status, attempt_count, next_attempt_at, error_message, first_failed_at, last_failed_at)
		VALUES ($1, $2, $3, $4, true, $5, $6, $7, $8, $9, clock_timestamp() + $10::interval,
			CASE WHEN coalesce(` + lastErasure + `, $12) <> $12 THEN 'erased' ELSE $11 END, clock_timestamp(),
			clock_timestamp())
		ON CONFLICT (topic, publisher, campaign_id) WHERE holds DO UPDATE
			SET seq = excluded.seq, position = excluded.position, event_id = excluded.event_id, event_type = excluded.event_type,
			status = excluded.status, attempt_count = excluded.attempt_count, next_attempt_at = excluded.next_attempt_at,
				error_message = excluded.error_message,
			first_failed_at = CASE WHEN p.seq = excluded.seq THEN coalesce(p.first_failed_at, excluded.first_failed_at)
				ELSE excluded.first_failed_at END, last_failed_at = excluded.last_failed_at`

	// queryLeaveOut adds an event that holds back no others.
	queryLeaveOut = `INSERT INTO tidemark.parked AS p (topic, publisher, campaign_id, seq, holds, position, event_id,
		event_type, status, attempt_count, error_message, first_failed_at, last_failed_at)
		VALUES ($1, $2, $3, $4, false, $5, $6, $7, 'parked', $8, CASE WHEN coalesce(` + lastErasure + `, $10) <> $10
			THEN 'erased' ELSE $9 END, clock_timestamp(), clock_timestamp())
		ON CONFLICT (topic, publisher, campaign_id, seq, holds) DO UPDATE
			SET position = excluded.position, event_id = excluded.event_id, event_type = excluded.event_type,
			status = 'parked', attempt_count = excluded.attempt_count, error_message = excluded.error_message,
			first_failed_at = CASE WHEN p.event_id = excluded.event_id THEN coalesce(p.first_failed_at,
				excluded.first_failed_at) ELSE excluded.first_failed_at END, last_failed_at = excluded.last_failed_at`

	// queryDue walks the partial index on due rows, pair after pair, and stops at the limit for each.
	queryDue = `SELECT u.topic, u.publisher, d.campaign_id, d.seq, d.holds, d.position, d.status, d.attempt_count
		FROM unnest($1::text[], $2::text[]) AS u (topic, publisher)
		CROSS JOIN LATERAL (
			SELECT k.campaign_id, k.seq, k.holds, k.position, k.status, k.attempt_count FROM tidemark.parked k
			WHERE k.topic = u.topic AND k.publisher = u.publisher AND k.status IN ('retrying', 'draining')
				AND k.next_attempt_at <= clock_timestamp()
			ORDER BY k.topic, k.publisher, k.next_attempt_at LIMIT $3
		) d`

	// queryDrained moves a campaign's place to its next event. Each write of a parked row by the relay
	// compares the place it knows, so an operator's act in between wins.
	queryDrained = `UPDATE tidemark.parked SET seq = $8, position = $9, status = 'draining', attempt_count = 0,
		next_attempt_at = clock_timestamp(), event_id = NULL, event_type = NULL,
			error_message = NULL, first_failed_at = NULL, last_failed_at = NULL
		WHERE topic = $1 AND publisher = $2 AND campaign_id = $3 AND seq = $4 AND holds = $5 AND status = $6
			AND attempt_count = $7`

	// queryUnpark deletes one row by its primary key.
	queryUnpark = `DELETE FROM tidemark.parked WHERE topic = $1 AND publisher = $2 AND campaign_id = $3 AND seq = $4
		AND holds = $5 AND status = $6 AND attempt_count = $7`

	// queryPostpone writes one row by its primary key.
	queryPostpone = `UPDATE tidemark.parked SET status = $8, attempt_count = $9,
		next_attempt_at = clock_timestamp() + $10::interval,
			error_message = CASE WHEN coalesce(` + lastErasure + `, $15) <> $15 THEN 'erased' ELSE $11 END,
			first_failed_at = coalesce(first_failed_at, clock_timestamp()), last_failed_at = clock_timestamp(), event_id = $12,
				event_type = $13, position = $14
		WHERE topic = $1 AND publisher = $2 AND campaign_id = $3 AND seq = $4 AND holds = $5 AND status = $6
			AND attempt_count = $7`

	// queryGhosts looks events up by campaign and id, one by one. It returns those that are neither in
	// the journal nor archived, and writes them while the pair has fewer than $7.
	queryGhosts = `WITH gone AS MATERIALIZED (
			SELECT u.* FROM unnest($3::text[], $4::text[]::uuid[], $5::bigint[], $6::bigint[]) AS u (campaign_id, event_id,
				seq, position)
			WHERE NOT EXISTS (SELECT FROM tidemark.find_event(u.campaign_id, u.event_id) OFFSET 0)
				AND NOT tidemark.is_archived(u.campaign_id, u.seq, u.position)
		), written AS (
			INSERT INTO tidemark.ghosts (topic, publisher, campaign_id, event_id, seq, position)
			SELECT $1, $2, g.campaign_id, g.event_id, g.seq, g.position FROM gone g ORDER BY g.position
			LIMIT greatest(0, $7::bigint - (SELECT count(*) FROM tidemark.ghosts k WHERE k.topic = $1 AND k.publisher = $2))
			ON CONFLICT DO NOTHING
		)
		SELECT campaign_id, event_id, seq, position FROM gone`
)
