package sqlfile

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// queryOutside answers what this transaction has created, changed or locked for that outside of the
// scratch schema: relations by their locks, and all else by the transaction that wrote its row. A
// subtransaction has an id of its own, which is locked until that ends: what a DO block makes in a
// part with EXCEPTION is not found.
const queryOutside = `WITH mine AS MATERIALIZED (
		SELECT l.transactionid AS xid FROM pg_catalog.pg_locks l
		WHERE l.pid = pg_backend_pid() AND l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'
	), touched AS (
		SELECT c.relnamespace AS place, 'relation' AS kind, c.relname::text AS name
		FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation
		WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock'
			AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
		UNION ALL
		SELECT p.pronamespace, 'function', p.proname FROM pg_catalog.pg_proc p WHERE p.xmin IN (SELECT m.xid FROM mine m)
		UNION ALL
		SELECT t.typnamespace, 'type', t.typname FROM pg_catalog.pg_type t
		WHERE t.xmin IN (SELECT m.xid FROM mine m) AND t.typrelid = 0 AND t.typelem = 0
		UNION ALL
		SELECT o.oprnamespace, 'operator', o.oprname FROM pg_catalog.pg_operator o WHERE o.xmin IN (SELECT m.xid FROM mine m)
		UNION ALL
		SELECT c.relnamespace, 'trigger', t.tgname FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
		WHERE t.xmin IN (SELECT m.xid FROM mine m) AND NOT t.tgisinternal
		UNION ALL
		SELECT n.oid, 'schema', n.nspname FROM pg_catalog.pg_namespace n WHERE n.xmin IN (SELECT m.xid FROM mine m)
		UNION ALL
		SELECT e.extnamespace, 'extension', e.extname FROM pg_catalog.pg_extension e WHERE e.xmin IN (SELECT m.xid FROM mine m)
	)
	SELECT t.kind || ' ' || CASE t.kind WHEN 'schema' THEN quote_ident(t.name) ELSE format('%I.%I', n.nspname, t.name) END
	FROM touched t JOIN pg_catalog.pg_namespace n ON n.oid = t.place
	WHERE n.nspname <> 'tidemark_check_' || pg_backend_pid() AND n.nspname !~ '^pg_toast' ORDER BY 1`

// outside answers what the transaction has touched outside of the scratch schema, without what is known.
func outside(ctx context.Context, tx pgx.Tx, known []string) ([]string, error) {
	rows, err := tx.Query(ctx, queryOutside)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return slices.DeleteFunc(found, func(name string) bool { return slices.Contains(known, name) }), err
}
