package catalogue

const (
	// querySubjectKeys probes the unique index on subjects. Creating a key waits for transactions that
	// create the same one.
	querySubjectKeys = `SELECT subject, id, wrapped, wrapped_by,
			current_setting('transaction_isolation') = 'read committed'
		FROM tidemark.subject_keys($1::jsonb)`

	// queryWrappingKey probes a primary key. Recording a check value waits for transactions that record one of the
	// same name.
	queryWrappingKey = `SELECT tidemark.wrapping_key($1::text, $2::text)`

	// queryTrust changes a row by its primary key.
	queryTrust = `SELECT FROM tidemark.trust_wrapping_key($1::text, $2::text)`

	// queryKeys probes two primary keys for each id, and reads a value in the server's memory. A key that was
	// deleted may be back in its table: an old backup has it.
	queryKeys = `SELECT m.last_value, current_setting('transaction_isolation') = 'read committed', k.id::text, k.subject,
			k.wrapped, k.wrapped_by
		FROM tidemark.erased m LEFT JOIN tidemark.keys k ON k.id = ANY ($1::text[]::uuid[])
			AND NOT EXISTS (SELECT FROM tidemark.deleted_keys d WHERE d.id = k.id)`

	// querySomeKeys reads some keys of one wrapping key around a random place of the primary key, since appenders
	// choose the ids of keys.
	querySomeKeys = `WITH at AS MATERIALIZED (SELECT gen_random_uuid() AS id)
		SELECT k.id::text, k.subject, k.wrapped, k.wrapped_by FROM (
			(SELECT * FROM tidemark.keys WHERE id > (SELECT id FROM at) ORDER BY id LIMIT 100)
			UNION ALL (SELECT * FROM tidemark.keys WHERE id < (SELECT id FROM at) ORDER BY id DESC LIMIT 100)
		) k
		WHERE k.wrapped_by = $1 AND k.id <> $2::text::uuid ORDER BY random() LIMIT 8`

	queryMayReadKeys = `SELECT has_table_privilege('tidemark.keys', 'SELECT')`

	// queryOldKeys reads a range of the primary key.
	queryOldKeys = `SELECT id::text, subject, wrapped, wrapped_by FROM tidemark.keys
		WHERE id > $1::text::uuid AND wrapped_by <> $2 ORDER BY id LIMIT $3`

	// queryRewrap changes rows by the primary key, unless another call has been faster.
	queryRewrap = `SELECT tidemark.rewrap_keys($1::text[]::uuid[], $2, $3, $4)`
)
