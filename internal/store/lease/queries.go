package lease

// The functions stand in migrations/00003_leases.sql and 00004_projections.sql with the locks they
// take. All lock lease rows in the order of campaign_id; claims skip rows that are being written
// and do not wait.
const (
	// queryClaim walks the outbox's primary key from campaign to campaign and stops at the limit.
	queryClaim = `SELECT campaign_ids, generations, checkpoints, next_cursor, next_expiry, crashed_ids
		FROM tidemark.claim($1, $2, $3, $4, $5)`

	// queryClaimAhead is queryClaim that leaves the campaigns where statements that follow on the
	// connection find them, also before its answer has been seen (tidemark.claimed_campaigns and
	// claimed_checkpoints).
	queryClaimAhead = `SELECT campaign_ids, generations, checkpoints, next_cursor, next_expiry, crashed_ids,
			set_config('tidemark.claimed_campaigns', campaign_ids::text, false),
				set_config('tidemark.claimed_checkpoints', checkpoints::text, false)
		FROM tidemark.claim($1, $2, $3, $4, $5)`

	// queryClaimDeferred walks the partial index on due retries and stops at the limit.
	queryClaimDeferred = `SELECT campaign_ids, generations, checkpoints, next_due, crashed_ids
		FROM tidemark.claim_deferred($1, $2, $3, $4, $5)`

	// queryTakeOver locks and writes one row a campaign, by the primary key.
	queryTakeOver = `SELECT campaign_id, generation, checkpoint FROM tidemark.take_over($1, $2, $3, $4, $5)`

	// queryAdvance probes the primary key once a lease and updates it in place (HOT).
	queryAdvance = `SELECT tidemark.advance($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`

	// queryRenew probes the primary key twice a lease; it skips rows that are being written.
	queryRenew = `SELECT campaign_id FROM tidemark.renew($1, $2, $3, $4, $5)`

	// queryStillHeld probes the primary key once a lease, and locks it for a moment: what another is
	// writing is passed by.
	queryStillHeld = `SELECT l.campaign_id FROM unnest($3::text[], $4::bigint[], $5::bigint[]) AS u (campaign_id,
		generation, checkpoint) CROSS JOIN LATERAL (
			SELECT * FROM tidemark.leases l WHERE l.consumer_group = $1 AND l.campaign_id = u.campaign_id FOR UPDATE SKIP LOCKED
		) l
		WHERE l.owner = $2 AND l.generation = u.generation AND l.checkpoint = u.checkpoint`

	// queryRelease probes the primary key once a lease.
	queryRelease = `SELECT tidemark.release($1, $2, $3, $4)`

	// queryBeat writes one row by its primary key; others do not write it. An owner that had been given
	// up for dead takes itself off the list of the crashed, a small table; rows that a claim is
	// writing wait for the next time.
	queryBeat = `WITH alive AS (
			UPDATE tidemark.crashes c SET owners = array_remove(c.owners, $1)
			WHERE c.ctid = ANY (ARRAY(SELECT d.ctid FROM tidemark.crashes d WHERE d.consumer_group = $2 AND $1 = ANY (d.owners)
				FOR UPDATE SKIP LOCKED))
		)
		INSERT INTO tidemark.workers AS w (owner, consumer_group, host, pid, started_at, seen_at, campaigns_held,
			events_applied, knows, lease_ttl)
		VALUES ($1, $2, $3, $4, now(), now(), $5, $6, coalesce(nullif($7, ''), '{}')::jsonb, $8)
		ON CONFLICT (owner) DO UPDATE SET seen_at = now(), lease_ttl = excluded.lease_ttl,
			campaigns_held = excluded.campaigns_held, events_applied = excluded.events_applied
		RETURNING drained_by IS NOT NULL`

	// queryDrain writes one row by its primary key; the worker's next beat waits for it.
	queryDrain = `UPDATE tidemark.workers SET drained_by = nullif($2, '') WHERE owner = $1`

	// queryForget deletes the row of a worker that stops, and those of workers not seen for a day.
	queryForget = `DELETE FROM tidemark.workers WHERE owner = $1 OR seen_at < now() - interval '1 day'`

	// queryWorkers reads a table of one row a worker.
	queryWorkers = `SELECT owner, consumer_group, host, pid, started_at, seen_at, campaigns_held, events_applied,
		coalesce(drained_by, ''), knows FROM tidemark.workers ORDER BY started_at, owner`

	// queryVersions reads a table of one row a worker.
	queryVersions = `SELECT k.name, v.version::integer FROM tidemark.workers w,
		jsonb_each(w.knows) AS k (name, versions), jsonb_array_elements_text(k.versions) AS v (version)
		WHERE w.consumer_group = $1 AND w.seen_at > clock_timestamp() - interval '1 minute' GROUP BY 1, 2 ORDER BY 1, 2`

	// queryWait moves a sequence and nothing else. The value grows with every wait, so that the end of
	// an earlier one does not end it. It need not survive a crash, so it does not wait for the disk.
	queryWait = `SELECT setval('tidemark.waiting', greatest(last_value + 1,
		(extract(epoch FROM clock_timestamp()) * 1000)::bigint + $1)),
		set_config('synchronous_commit', 'off', true) FROM tidemark.waiting`

	// queryWake reads a sequence, and notifies if a worker waits.
	queryWake = `SELECT tidemark.wake()`

	// queryAwake ends a wait unless another has begun.
	queryAwake = `SELECT setval('tidemark.waiting', 0), set_config('synchronous_commit', 'off', true)
		FROM tidemark.waiting WHERE last_value = $1`
)
