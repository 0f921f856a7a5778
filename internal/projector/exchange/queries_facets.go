package exchange

// facets lists what users may have added to tables. $1 is their schema, $2 the schema of the tables
// to carry it to, $3 their names. ord is the order of creation, sql the statement for $2: empty if
// it is unnecessary or queryCarry does it, NULL if it cannot be carried over.
const facets = `tables AS (
			SELECT t.*, n.oid AS target_oid, n.reloptions AS target_options,
				pg_catalog.format('%I.%I', $2::text, t.relname) AS target
			FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace s ON s.oid = t.relnamespace
			LEFT JOIN (pg_catalog.pg_class n JOIN pg_catalog.pg_namespace ns ON ns.oid = n.relnamespace
				AND ns.nspname = $2) ON n.relname = t.relname
			WHERE s.nspname = $1 AND t.relname = ANY ($3::text[]) AND t.relkind IN ('r', 'p')
		), columns AS (
			SELECT t.target, n.attname IS NOT NULL AS at_target, a.*, d.expr, y.typstorage,
				pg_catalog.format('%s.%s', t.relname, a.attname) AS name,
				pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I ', t.target, a.attname) AS alter
			FROM tables t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
			JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
			LEFT JOIN pg_catalog.pg_attribute n ON n.attrelid = t.target_oid AND n.attname = a.attname AND NOT n.attisdropped
			LEFT JOIN LATERAL (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d
				WHERE d.adrelid = t.oid AND d.adnum = a.attnum) d (expr) ON true
		), indexes AS (
			SELECT t.relname AS table_name, t.target, i.*, x.indisvalid, x.indisclustered,
				EXISTS (SELECT FROM pg_catalog.pg_constraint c WHERE c.conindid = i.oid AND c.conrelid = t.oid) AS of_constraint
			FROM tables t JOIN pg_catalog.pg_index x ON x.indrelid = t.oid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
				AND NOT i.relispartition
		), rare (name, settings) AS (
			SELECT 'column ' || c.name, pg_catalog.concat_ws(' ', CASE WHEN c.attstorage <> c.typstorage THEN c.attstorage END,
				nullif(c.attcompression, ''), nullif(c.attstattarget, -1), (SELECT string_agg(o, ' ') FROM unnest(c.attoptions) o
					WHERE pg_catalog.starts_with(o, 'n_distinct')))
			FROM columns c
			UNION ALL
			SELECT 'table ' || t.relname, pg_catalog.concat_ws(' ', CASE t.relpersistence WHEN 'u' THEN 'unlogged' END,
				p.spcname, CASE WHEN t.relreplident <> 'd' THEN 'replica identity ' || t.relreplident::text END, x.reloptions)
			FROM tables t LEFT JOIN pg_catalog.pg_class x ON x.oid = t.reltoastrelid
				LEFT JOIN pg_catalog.pg_tablespace p ON p.oid = t.reltablespace
			UNION ALL
			SELECT 'index ' || i.relname, pg_catalog.concat_ws(' ', CASE WHEN i.of_constraint THEN i.reloptions END, p.spcname,
				CASE WHEN i.indisclustered THEN 'clustered' END, (SELECT string_agg(a.attstattarget::text, ' ')
					FROM pg_catalog.pg_attribute a WHERE a.attrelid = i.oid AND a.attstattarget >= 0))
			FROM indexes i LEFT JOIN pg_catalog.pg_tablespace p ON p.oid = i.reltablespace
		), facets (ord, name, sql) AS (
			SELECT 0, pg_catalog.format('column %s %s', c.name,
				pg_catalog.concat_ws(' identity ', c.type, nullif(c.attidentity::text, ''))), NULL
			FROM (SELECT c.*, pg_catalog.format_type(c.atttypid, c.atttypmod) AS type FROM columns c) c
			UNION ALL
			SELECT 1, pg_catalog.format('default %s %s', c.name, c.expr),
				CASE WHEN c.at_target THEN c.alter || 'SET DEFAULT ' || c.expr ELSE '' END
			FROM columns c WHERE c.attgenerated = '' AND c.expr IS NOT NULL
			UNION ALL
			SELECT 1, 'not null ' || c.name, CASE WHEN c.at_target THEN c.alter || 'SET NOT NULL' ELSE '' END
			FROM columns c WHERE c.attnotnull
			UNION ALL
			SELECT 1, pg_catalog.format('setting %s %s', t.relname, o.option), CASE
				WHEN split_part(o.option, '=', 1) <> ALL (SELECT split_part(x.option, '=', 1)
				FROM unnest(t.target_options) x (option)) THEN
				pg_catalog.format('ALTER TABLE %s SET (%s)', t.target, o.option) ELSE '' END
			FROM tables t CROSS JOIN LATERAL unnest(t.reloptions) o (option)
			UNION ALL
			SELECT 2, i.table_name || '.' || i.relname, CASE WHEN i.indisvalid AND NOT i.of_constraint THEN
				replace(replace(pg_catalog.pg_get_indexdef(i.oid), pg_catalog.format(' %I.%I USING ', $1::text, i.table_name),
					pg_catalog.format(' %s USING ', i.target)), pg_catalog.format(' ON ONLY %s USING ', i.target),
					pg_catalog.format(' ON %s USING ', i.target)) ELSE '' END
			FROM indexes i
			UNION ALL
			SELECT CASE c.contype WHEN 'f' THEN 4 ELSE 3 END, t.relname || '.' || c.conname,
				CASE WHEN c.contype IN ('c', 'f', 'u', 'p', 'x')
					AND c.conparentid = 0 THEN pg_catalog.format('ALTER TABLE %s ADD CONSTRAINT %I %s', t.target, c.conname,
					pg_catalog.pg_get_constraintdef(c.oid)) ELSE '' END
			FROM tables t JOIN pg_catalog.pg_constraint c ON c.conrelid = t.oid
			UNION ALL
			SELECT 5, pg_catalog.format('%s with %s', r.name, r.settings), NULL FROM rare r WHERE r.settings <> ''
			UNION ALL
			SELECT 5, pg_catalog.format('sequence %s with %s', c.relname, pg_catalog.concat_ws(' ', q.seqincrement, q.seqmin,
				q.seqmax, q.seqcache, q.seqcycle)), NULL
			FROM tables t JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid
				AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
			JOIN pg_catalog.pg_sequence q ON q.seqrelid = d.objid JOIN pg_catalog.pg_class c ON c.oid = d.objid
			UNION ALL
			SELECT 5, pg_catalog.concat_ws(' ', 'statistics', t.relname || '.' || x.stxname, nullif(x.stxstattarget, -1)), NULL
			FROM tables t JOIN pg_catalog.pg_statistic_ext x ON x.stxrelid = t.oid
			UNION ALL
			SELECT 5, pg_catalog.format('trigger %s.%s%s', t.relname, g.tgname, CASE WHEN g.tgenabled <> 'O' THEN
				' ' || g.tgenabled::text ELSE '' END), CASE WHEN g.tgenabled = 'O' THEN '' END
			FROM tables t JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.oid AND NOT g.tgisinternal
			UNION ALL
			SELECT 5, pg_catalog.format('type %s with %s', y.typname, pg_catalog.concat_ws(' ',
				pg_catalog.pg_get_expr(y.typdefaultbin, 0), CASE WHEN y.typnotnull THEN 'NOT NULL' END,
				(SELECT string_agg(pg_catalog.pg_get_constraintdef(k.oid), ' ' ORDER BY pg_catalog.pg_get_constraintdef(k.oid))
					FROM pg_catalog.pg_constraint k WHERE k.contypid = y.oid AND k.contype = 'c'),
				(SELECT string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e
					WHERE e.enumtypid = y.oid))), NULL
			FROM pg_catalog.pg_type y JOIN pg_catalog.pg_namespace s ON s.oid = y.typnamespace AND s.nspname = $1
			WHERE y.typtype IN ('d', 'e') AND EXISTS (SELECT FROM columns c WHERE c.atttypid IN (y.oid, y.typarray))
			UNION ALL
			SELECT 5, pg_catalog.format('policy %s.%s', t.relname, y.polname), '' FROM tables t
				JOIN pg_catalog.pg_policy y ON y.polrelid = t.oid
			UNION ALL
			SELECT 5, pg_catalog.format('rule %s.%s', t.relname, r.rulename), NULL FROM tables t
				JOIN pg_catalog.pg_rewrite r ON r.ev_class = t.oid
		)`

// The statements read the catalogues. With the tables' schema as search_path, texts are the same in any schema.
const (
	queryObjects = `WITH ` + facets + ` SELECT DISTINCT f.name COLLATE "C" FROM facets f WHERE f.name IS NOT NULL
		ORDER BY 1`

	// queryAdded returns statements that give the tables in schema $2 what was added to their
	// namesakes in schema $1: facets that are neither in $4 nor in $5, the facets of the tables in $2.
	queryAdded = `WITH ` + facets + `
		SELECT coalesce(f.sql, ''), f.name FROM facets f
		WHERE f.sql IS DISTINCT FROM '' AND f.name <> ALL ($4::text[]) AND f.name <> ALL ($5::text[])
			ORDER BY f.ord, f.name COLLATE "C"`
)
