package lease

// The functions stand in migrations/00003_leases.sql and 00004_projections.sql with the locks they take. All lock lease rows in the order of
// campaign_id; claims skip rows that somebody is writing and do not wait.
const (
	// queryClaim walks the outbox's primary key from campaign to campaign and stops at the limit.
	queryClaim = `SELECT campaign_ids, generations, checkpoints, next_cursor, next_expiry FROM tidemark.claim($1, $2, $3, $4, $5)`

	// queryClaimDeferred walks the partial index on due retries and stops at the limit.
	queryClaimDeferred = `SELECT campaign_ids, generations, checkpoints, next_due FROM tidemark.claim_deferred($1, $2, $3, $4, $5)`

	// queryAdvance probes the primary key once a lease and updates it in place (HOT).
	queryAdvance = `SELECT tidemark.advance($1, $2, $3, $4, $5, $6, $7, $8)`

	// queryRenew probes the primary key twice a lease; it skips rows that are being written.
	queryRenew = `SELECT campaign_id FROM tidemark.renew($1, $2, $3, $4, $5)`

	// queryRelease probes the primary key once a lease.
	queryRelease = `SELECT tidemark.release($1, $2, $3, $4)`

	// queryBeat writes one row by its primary key; nobody else writes it.
	queryBeat = `INSERT INTO tidemark.workers AS w (owner, consumer_group, host, pid, started_at, seen_at, campaigns_held, events_applied)
		VALUES ($1, $2, $3, $4, now(), now(), $5, $6)
		ON CONFLICT (owner) DO UPDATE SET seen_at = now(), campaigns_held = excluded.campaigns_held, events_applied = excluded.events_applied`

	// queryForget deletes the row of a worker that stops, and those of workers not seen for a day.
	queryForget = `DELETE FROM tidemark.workers WHERE owner = $1 OR seen_at < now() - interval '1 day'`

	// queryWorkers reads a table of one row a worker.
	queryWorkers = `SELECT owner, consumer_group, host, pid, started_at, seen_at, campaigns_held, events_applied FROM tidemark.workers ORDER BY started_at, owner`

	// queryWait moves a sequence and nothing else. The value grows with every wait, so that the end of an earlier one does not end it.
	// It need not survive a crash, so it does not wait for the disk.
	queryWait = `SELECT setval('tidemark.waiting', greatest(last_value + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $1)),
		set_config('synchronous_commit', 'off', true) FROM tidemark.waiting`

	// queryAwake ends a wait unless somebody has begun another.
	queryAwake = `SELECT setval('tidemark.waiting', 0), set_config('synchronous_commit', 'off', true) FROM tidemark.waiting WHERE last_value = $1`
)
