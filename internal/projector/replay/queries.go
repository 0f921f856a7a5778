package replay

// Statements to find the events that wrote a row.
const (
	// queryTracing tells the trigger of trace the event of the statements that follow.
	queryTracing = `SELECT set_config('tidemark.trace_seq', $1, true)`

	// queryTraced reads the trigger's record: an object with the seq that last wrote each column.
	queryTraced = `SELECT coalesce(nullif(current_setting('tidemark.trace', true), ''), '{}')`
)

const (
	// queryBeginScratch opens a transaction with one snapshot of the database. It is always rolled back.
	queryBeginScratch = `BEGIN ISOLATION LEVEL REPEATABLE READ`

	// queryScratchTables reads a schema's tables from the catalogue, in the order of their creation:
	// the primary key's columns, all columns, generated columns, columns that number rows, and whether
	// a text column campaign_id exists.
	queryScratchTables = `SELECT c.relname, ARRAY(
			SELECT a.attname::text FROM pg_catalog.pg_index i CROSS
				JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, n)
				JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
			WHERE i.indrelid = c.oid AND i.indisprimary AND k.n <= i.indnkeyatts ORDER BY k.n),
			ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
				AND NOT a.attisdropped ORDER BY a.attnum),
			ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
				AND NOT a.attisdropped AND a.attgenerated <> ''),
			ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid
				AND d.adnum = a.attnum
				WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
					AND (a.attidentity <> '' OR pg_catalog.pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%')),
			EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
				WHERE a.attrelid = c.oid AND NOT a.attisdropped AND a.attname = 'campaign_id' AND y.typcategory = 'S')
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY c.oid`

	// queryTouched finds a table outside the scratch schema that this transaction wrote to, by its locks.
	queryTouched = `SELECT format('%I.%I', n.nspname, c.relname)
		FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation
			JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND c.relkind IN ('r', 'p')
			AND n.nspname <> $1 AND n.nspname NOT IN ('pg_catalog', 'pg_toast') ORDER BY 1 LIMIT 1`
)

// queryUnbounded removes the statement timeout for statements that are not a projection's.
const queryUnbounded = `SELECT set_config('statement_timeout', '0', true)`

// Statements to copy and read a scratch table.
const (
	formatCopyTable    = "CREATE TABLE %s AS TABLE %s"
	formatTableInOrder = "SELECT to_jsonb(t) FROM %s t ORDER BY %s"
	formatRow          = "SELECT to_jsonb(t) FROM %s t WHERE %s"
)

// formatTrace creates a trigger that records, in a setting, which event last changed which column.
const formatTrace = `CREATE FUNCTION %[1]s() RETURNS trigger LANGUAGE plpgsql AS $tidemark$
DECLARE
	seq CONSTANT bigint := current_setting('tidemark.trace_seq');
	was CONSTANT boolean := TG_OP <> 'INSERT' AND (%[2]s);
	there CONSTANT boolean := TG_OP <> 'DELETE' AND (%[3]s);
	noted jsonb := coalesce(nullif(current_setting('tidemark.trace', true), ''), '{}');
BEGIN
	IF was AND NOT there THEN
		noted := jsonb_build_object('', seq);
	ELSIF there AND NOT was THEN
		SELECT jsonb_object_agg(n.key, seq) INTO noted FROM jsonb_object_keys(to_jsonb(NEW)) AS n (key);
	ELSIF there THEN
		noted := noted || coalesce((SELECT jsonb_object_agg(n.key, seq) FROM jsonb_each(to_jsonb(NEW)) AS n
		WHERE n.value IS DISTINCT FROM to_jsonb(OLD) -> n.key), '{}');
	ELSE
		RETURN NULL;
	END IF;
	PERFORM set_config('tidemark.trace', noted::text, true);
	RETURN NULL;
END
$tidemark$;
CREATE TRIGGER tidemark_trace AFTER INSERT OR UPDATE OR DELETE ON %[4]s FOR EACH ROW EXECUTE FUNCTION %[1]s()`

const formatCountRows = `SELECT count(*) FROM %s t WHERE %s`

// formatStrays finds the rows of a table, which is quoted, whose campaign is not in the journal. It
// reads the table twice, and probes the journal once per campaign.
const formatStrays = `WITH campaigns AS MATERIALIZED (SELECT DISTINCT t.campaign_id FROM %[1]s t)
		SELECT t.campaign_id::text, to_jsonb(t) FROM %[1]s t WHERE t.campaign_id IS NULL
		UNION ALL
		SELECT t.campaign_id::text, to_jsonb(t) FROM campaigns c JOIN %[1]s t ON t.campaign_id = c.campaign_id
		WHERE NOT EXISTS (SELECT FROM tidemark.journal j
		WHERE j.campaign_id = c.campaign_id::text COLLATE "C" OFFSET 0)`

// Comparison of two tables of one shape, each a side. formatUnlikeCounts counts equal rows, for
// tables without a usable key. Both sort all rows of the compared campaigns. A doubled % is filled
// in by the second of two formats.
const (
	formatRowsOfSide   = `SELECT %s AS campaign_id, to_jsonb(t) - $2::text[] AS row, %%d AS n FROM %%s t WHERE %s`
	formatUnlikeCounts = `SELECT d.campaign_id, NULL::jsonb, CASE WHEN d.n > 0 THEN d.row END,
			CASE WHEN d.n < 0 THEN d.row END, abs(d.n)
		FROM (
			SELECT a.campaign_id, a.row, sum(a.n)::bigint AS n
				FROM (%[1]s UNION ALL %[1]s) a GROUP BY a.campaign_id, a.row
		) d
		WHERE d.n <> 0 ORDER BY d.campaign_id, d.row`

	formatKeyedRowsOfSide = `SELECT %s AS campaign_id, jsonb_build_array(%s) AS key, to_jsonb(t) - $2::text[] AS row
		FROM %%s t WHERE %s`
	formatUnlikeRows = `SELECT coalesce(w.campaign_id, g.campaign_id), coalesce(w.key, g.key), w.row, g.row, 1::bigint
		FROM (%[1]s) w FULL JOIN (%[1]s) g ON w.key = g.key AND w.campaign_id = g.campaign_id
		WHERE w.row IS DISTINCT FROM g.row ORDER BY 1, 2`
)

// formatRefill writes the rows back into a scratch table from where they were set aside.
const formatRefill = "INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT * FROM %s;\n"
