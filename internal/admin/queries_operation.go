package admin

// JSON parameters are text ($n::text::jsonb) and lists of names are []string, because pgx's exec mode
// and the simple protocol infer parameter types from Go types.
//
// Running operations have their own index. A batch locks its operation's row until it commits, so no
// two workers do the same batch. An abort waits for that lock.
const (
	queryInsertOperation = `INSERT INTO tidemark.operations (kind, request, actor, reason, total)
		VALUES ($1, $2::text::jsonb, $3, nullif($4, ''), $5) RETURNING ` + operationColumns

	querySetTotal = `UPDATE tidemark.operations SET total = $2 WHERE id = $1`

	queryNow   = `SELECT clock_timestamp()`
	querySince = `SELECT now() - $1::timestamptz`

	operationColumns = `id, kind, request, actor, coalesce(reason, ''), state, total, done, skipped, failed,
		progress, coalesce(error, ''), created_at, updated_at, ended_at, coalesce(ended_by, '')`
	readOperations = `SELECT ` + operationColumns + ` FROM tidemark.operations `

	queryOperations = readOperations + `WHERE ($1 = '' OR state = $1) AND ($2 = '' OR kind = $2)
		AND ($3::bigint = 0 OR id < $3) ORDER BY id DESC LIMIT $4`

	queryOperation = readOperations + `WHERE id = $1`

	queryItems = `SELECT ord, campaign_id, subject, seq, coalesce(outcome, ''), coalesce(detail, '')
		FROM tidemark.operation_items WHERE operation_id = $1 AND ord > $2 ORDER BY ord LIMIT $3`

	queryAbort = `UPDATE tidemark.operations SET state = 'aborted', ended_at = clock_timestamp(),
		updated_at = clock_timestamp(), ended_by = $2 WHERE id = $1 AND state = 'running'`

	// queryTakeOperation locks the operation that has waited longest.
	queryTakeOperation = readOperations + `WHERE state = 'running' AND kind = ANY ($1::text[]) ORDER BY updated_at, id
		LIMIT 1 FOR UPDATE SKIP LOCKED`

	// queryLeaseOperation leases an operation whose lease has expired or that never had one. Any worker can
	// do a proof or a rollback.
	queryLeaseOperation = `UPDATE tidemark.operations SET owner = $2, expires_at = clock_timestamp() + $3::interval
		WHERE id = (
			SELECT o.id FROM tidemark.operations o WHERE o.state = 'running' AND o.kind = ANY ($1::text[])
				AND (o.expires_at < clock_timestamp() OR o.expires_at > clock_timestamp() + $3::interval + interval '1 s')
				AND (coalesce(o.request ->> 'projection', o.request ->> 'publisher') = ANY ($4::text[])
					OR o.request @> '{"proof": true}' OR o.kind = 'rollback')
			ORDER BY o.updated_at, o.id LIMIT 1 FOR UPDATE SKIP LOCKED
		) RETURNING id`

	// queryKeepOperation renews the lease. No row: the lease is lost or the operation was aborted.
	queryKeepOperation = `UPDATE tidemark.operations SET expires_at = clock_timestamp() + $3::interval,
		updated_at = clock_timestamp(), progress = coalesce($4::text::jsonb, progress),
			total = greatest(total, $5), done = $6, skipped = $7, failed = $8
		WHERE id = $1 AND owner = $2 AND state = 'running'`

	queryFreeOperation = `UPDATE tidemark.operations SET owner = '', expires_at = '-infinity' WHERE id = $1 AND owner = $2`

	queryLeft = `SELECT ord, campaign_id, subject, seq, '', '' FROM tidemark.operation_items WHERE operation_id = $1
		AND outcome IS NULL ORDER BY ord LIMIT $2`

	queryDone = `SELECT ord, campaign_id, subject, seq, '', '' FROM tidemark.operation_items
		WHERE operation_id = $1 AND outcome = 'done' ORDER BY ord LIMIT $2`

	queryOutcomes = `UPDATE tidemark.operation_items i SET outcome = u.outcome, detail = nullif(u.detail, '')
		FROM unnest($2::bigint[], $3::text[], $4::text[]) AS u (ord, outcome, detail) WHERE i.operation_id = $1
			AND i.ord = u.ord`

	queryCount = `UPDATE tidemark.operations SET done = done + $2, skipped = skipped + $3, failed = failed + $4,
		progress = coalesce($5::text::jsonb, progress), updated_at = clock_timestamp() WHERE id = $1`

	queryFinish = `UPDATE tidemark.operations SET state = $2, error = nullif($3, ''), ended_at = clock_timestamp(),
		updated_at = clock_timestamp(), owner = '', expires_at = '-infinity'
		WHERE id = $1 AND state = 'running'`

	// queryEndOwn ends an operation in the transaction of its work. No row: another worker has taken it
	// over, or it was aborted.
	queryEndOwn = `UPDATE tidemark.operations SET state = 'done', done = total, ended_at = clock_timestamp(),
		updated_at = clock_timestamp(), owner = '', expires_at = '-infinity'
		WHERE id = $1 AND owner = $2 AND state = 'running'`

	// queryRollingBack reads the index of running operations.
	queryRollingBack = `SELECT id FROM tidemark.operations WHERE state = 'running' AND kind = 'rollback'
		AND request ->> 'projection' = $1 LIMIT 1`

	queryAddItem = `INSERT INTO tidemark.operation_items (operation_id, ord, campaign_id, subject, seq, outcome, detail)
		VALUES ($1, $2, $3, $4, $5, 'failed', $6) ON CONFLICT DO NOTHING`

	// queryPruneOperations deletes operations that ended 90 days ago, with their items, a few at a time.
	queryPruneOperations = `DELETE FROM tidemark.operations WHERE id = ANY (ARRAY(SELECT o.id FROM tidemark.operations o
		WHERE o.ended_at < now() - interval '90 days' ORDER BY o.id LIMIT 1 FOR UPDATE SKIP LOCKED))`
)
