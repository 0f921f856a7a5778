package exchange

// facets are what tables have besides their columns that can be told from the projection's own by a
// text: $1 is their schema, $2 that of the tables that are to have it too, $3 their names. ord is
// the order in which they can be made, sql how to give the table of the same name in $2 one, NULL
// where that is not to be done.
const facets = `tables AS (
			SELECT t.*, n.oid AS target_oid, n.reloptions AS target_options,
				pg_catalog.format('%I.%I', $2::text, t.relname) AS target
			FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace s ON s.oid = t.relnamespace
			LEFT JOIN (pg_catalog.pg_class n JOIN pg_catalog.pg_namespace ns ON ns.oid = n.relnamespace
				AND ns.nspname = $2) ON n.relname = t.relname
			WHERE s.nspname = $1 AND t.relname = ANY ($3::text[]) AND t.relkind IN ('r', 'p')
		), columns AS (
			SELECT t.relname, t.target, n.attname IS NOT NULL AS at_target, a.*, d.expr,
				pg_catalog.format('%s.%s', t.relname, a.attname) AS name, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type,
				CASE WHEN n.attname IS NOT NULL OR a.attgenerated <> '' THEN pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I ',
					t.target, a.attname) END AS alter
			FROM tables t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
			LEFT JOIN pg_catalog.pg_attribute n ON n.attrelid = t.target_oid AND n.attname = a.attname AND NOT n.attisdropped
			LEFT JOIN LATERAL (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d
				WHERE d.adrelid = t.oid AND d.adnum = a.attnum) d (expr) ON true
		), indexes AS (
			SELECT t.relname AS table_name, t.target, i.*, x.indisvalid, x.indisclustered, x.indisreplident,
				EXISTS (SELECT FROM pg_catalog.pg_constraint c WHERE c.conindid = i.oid AND c.conrelid = t.oid) AS of_constraint,
				pg_catalog.format('ALTER INDEX %I.%I ', $2::text, i.relname) AS alter
			FROM tables t JOIN pg_catalog.pg_index x ON x.indrelid = t.oid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
				AND NOT i.relispartition
		), facets (ord, name, sql) AS (
			SELECT 0, pg_catalog.format('column %s %s', c.name,
				pg_catalog.concat_ws(' identity ', c.type, nullif(c.attidentity::text, ''))), CASE WHEN c.attgenerated <> ''
				AND NOT c.at_target THEN
				pg_catalog.format('ALTER TABLE %s ADD COLUMN %I %s GENERATED ALWAYS AS (%s) %s', c.target, c.attname, c.type,
					c.expr, CASE c.attgenerated WHEN 's' THEN 'STORED' ELSE 'VIRTUAL' END) END
			FROM columns c
			UNION ALL
			SELECT 1, pg_catalog.format('default %s %s', c.name, c.expr), c.alter || 'SET DEFAULT ' || c.expr FROM columns c
				WHERE c.attgenerated = '' AND c.expr IS NOT NULL
			UNION ALL
			SELECT 1, 'not null ' || c.name, c.alter || 'SET NOT NULL' FROM columns c WHERE c.attnotnull
			UNION ALL
			SELECT 1, pg_catalog.format('storage %s %s', c.name, c.attstorage), c.alter || 'SET STORAGE ' || CASE c.attstorage
				WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END
			FROM columns c JOIN pg_catalog.pg_type y ON y.oid = c.atttypid AND y.typstorage <> c.attstorage
			UNION ALL
			SELECT 1, pg_catalog.format('compression %s %s', c.name, c.attcompression),
				c.alter || 'SET COMPRESSION ' || CASE c.attcompression WHEN 'l' THEN 'lz4' ELSE 'pglz' END FROM columns c
				WHERE c.attcompression <> ''
			UNION ALL
			SELECT 1, pg_catalog.format('statistics target %s %s', c.name, c.attstattarget),
				c.alter || 'SET STATISTICS ' || c.attstattarget FROM columns c WHERE c.attstattarget >= 0
			UNION ALL
			SELECT 1, pg_catalog.format('option %s %s', c.name, o.option), c.alter || pg_catalog.format('SET (%s)', o.option)
				FROM columns c CROSS JOIN LATERAL unnest(c.attoptions) o (option) WHERE o.option LIKE 'n\_distinct%'
			UNION ALL
			SELECT 1, pg_catalog.format('setting %s %s', t.relname, o.option), CASE
				WHEN split_part(o.option, '=', 1) <> ALL (SELECT split_part(x.option, '=', 1)
				FROM unnest(t.target_options) x (option)) THEN
				pg_catalog.format('ALTER TABLE %s SET (%s)', t.target, o.option) END
			FROM tables t CROSS JOIN LATERAL unnest(t.reloptions) o (option)
			UNION ALL
			SELECT 1, pg_catalog.format('setting %s toast.%s', t.relname, o.option),
				pg_catalog.format('ALTER TABLE %s SET (toast.%s)', t.target, o.option)
			FROM tables t JOIN pg_catalog.pg_class x ON x.oid = t.reltoastrelid CROSS
				JOIN LATERAL unnest(x.reloptions) o (option)
			UNION ALL
			SELECT 1, 'unlogged ' || t.relname, pg_catalog.format('ALTER TABLE %s SET UNLOGGED', t.target) FROM tables t
				WHERE t.relpersistence = 'u'
			UNION ALL
			SELECT 1, pg_catalog.format('tablespace %s %s', t.relname, p.spcname),
				pg_catalog.format('ALTER TABLE %s SET TABLESPACE %I', t.target, p.spcname) FROM tables t
				JOIN pg_catalog.pg_tablespace p ON p.oid = t.reltablespace
			UNION ALL
			SELECT 1, pg_catalog.format('sequence %s %s', c.relname, v.settings),
				pg_catalog.format('ALTER SEQUENCE %I.%I %s', $2::text, c.relname, v.settings)
			FROM tables t JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid
				AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
			JOIN pg_catalog.pg_class c ON c.oid = d.objid AND c.relkind = 'S' JOIN pg_catalog.pg_sequence q ON q.seqrelid = c.oid
			CROSS JOIN LATERAL (SELECT pg_catalog.format('INCREMENT BY %s MINVALUE %s MAXVALUE %s CACHE %s %s', q.seqincrement,
				q.seqmin, q.seqmax, q.seqcache, CASE WHEN q.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END)) v (settings)
			WHERE $1 = $2 OR EXISTS (SELECT FROM pg_catalog.pg_class n
				WHERE n.relnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($2)) AND n.relname = c.relname
				AND n.relkind = 'S')
			UNION ALL
			SELECT 2, i.table_name || '.' || i.relname, CASE WHEN i.indisvalid AND NOT i.of_constraint THEN
				replace(replace(pg_catalog.pg_get_indexdef(i.oid), pg_catalog.format(' %I.%I USING ', $1::text, i.table_name),
					pg_catalog.format(' %s USING ', i.target)), pg_catalog.format(' ON ONLY %s USING ', i.target),
					pg_catalog.format(' ON %s USING ', i.target)) END
			FROM indexes i
			UNION ALL
			SELECT CASE c.contype WHEN 'f' THEN 4 ELSE 3 END, t.relname || '.' || c.conname,
				CASE WHEN c.contype IN ('c', 'f', 'u', 'p', 'x')
					AND c.conparentid = 0 THEN pg_catalog.format('ALTER TABLE %s ADD CONSTRAINT %I %s', t.target, c.conname,
					pg_catalog.pg_get_constraintdef(c.oid)) END
			FROM tables t JOIN pg_catalog.pg_constraint c ON c.conrelid = t.oid
			UNION ALL
			SELECT 5, pg_catalog.format('setting %s %s', i.relname, o.option), CASE
				WHEN i.of_constraint THEN i.alter || pg_catalog.format('SET (%s)', o.option) END FROM indexes i CROSS
				JOIN LATERAL unnest(i.reloptions) o (option)
			UNION ALL
			SELECT 5, pg_catalog.format('statistics target %s.%s %s', i.relname, a.attnum, a.attstattarget),
				i.alter || pg_catalog.format('ALTER COLUMN %s SET STATISTICS %s', a.attnum, a.attstattarget)
			FROM indexes i JOIN pg_catalog.pg_attribute a ON a.attrelid = i.oid AND a.attstattarget >= 0
			UNION ALL
			SELECT 5, pg_catalog.format('tablespace %s %s', i.relname, p.spcname),
				i.alter || pg_catalog.format('SET TABLESPACE %I', p.spcname) FROM indexes i
				JOIN pg_catalog.pg_tablespace p ON p.oid = i.reltablespace
			UNION ALL
			SELECT 5, pg_catalog.format('cluster %s %s', i.table_name, i.relname),
				pg_catalog.format('ALTER TABLE %s CLUSTER ON %I', i.target, i.relname) FROM indexes i WHERE i.indisclustered
			UNION ALL
			SELECT 5, pg_catalog.concat_ws(' ', 'replica identity', t.relname, t.relreplident, i.relname),
				pg_catalog.format('ALTER TABLE %s REPLICA IDENTITY %s', t.target, CASE t.relreplident WHEN 'f' THEN 'FULL'
					WHEN 'n' THEN 'NOTHING' ELSE pg_catalog.format('USING INDEX %I', i.relname) END)
			FROM tables t LEFT JOIN indexes i ON t.relreplident = 'i' AND i.indisreplident AND i.table_name = t.relname
				WHERE t.relreplident <> 'd'
			UNION ALL
			SELECT 6, pg_catalog.format('statistics %s.%s', t.relname, x.stxname),
				replace(pg_catalog.pg_get_statisticsobjdef(x.oid),
				pg_catalog.format('CREATE STATISTICS %I.%I ', s.nspname, x.stxname),
				pg_catalog.format('CREATE STATISTICS %I.%I ', $2::text, x.stxname))
			FROM tables t JOIN pg_catalog.pg_statistic_ext x ON x.stxrelid = t.oid
				JOIN pg_catalog.pg_namespace s ON s.oid = x.stxnamespace
			UNION ALL
			SELECT 7, pg_catalog.format('statistics target %s.%s %s', t.relname, x.stxname, x.stxstattarget),
				pg_catalog.format('ALTER STATISTICS %I.%I SET STATISTICS %s', $2::text, x.stxname, x.stxstattarget)
			FROM tables t JOIN pg_catalog.pg_statistic_ext x ON x.stxrelid = t.oid WHERE x.stxstattarget >= 0
			UNION ALL
			SELECT 8, pg_catalog.format('trigger %s.%s', t.relname, g.tgname), NULL FROM tables t
				JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.oid AND NOT g.tgisinternal
			UNION ALL
			SELECT 8, pg_catalog.format('policy %s.%s', t.relname, y.polname), NULL FROM tables t
				JOIN pg_catalog.pg_policy y ON y.polrelid = t.oid
			UNION ALL
			SELECT 8, pg_catalog.format('rule %s.%s', t.relname, r.rulename), NULL FROM tables t
				JOIN pg_catalog.pg_rewrite r ON r.ev_class = t.oid
		)`

// The statements read the catalogues. They run with a search_path of the tables' schema, so that
// what is in it has the same text in whichever schema it is.
const (
	// queryObjects answers the facets of tables.
	queryObjects = `WITH ` + facets + ` SELECT DISTINCT f.name COLLATE "C" FROM facets f WHERE f.name IS NOT NULL
		ORDER BY 1`

	// queryAdded answers how to give the tables in schema $2 what those of the same names in schema $1
	// have been given since they were made: facets that are not among $5, and not among $4, which are
	// those that the tables in $2 have.
	queryAdded = `WITH ` + facets + `
		SELECT f.sql, f.name FROM facets f
		WHERE f.sql IS NOT NULL AND f.name <> ALL ($4::text[]) AND f.name <> ALL ($5::text[])
			ORDER BY f.ord, f.name COLLATE "C"`

	// queryForeign answers the columns of the tables in schema $1 that are neither among $4 nor among
	// those of the tables in $2, $5: what they hold would be lost.
	queryForeign = `WITH ` + facets + `
		SELECT substr(f.name, 8) FROM facets f
		WHERE f.ord = 0 AND EXISTS (SELECT FROM unnest($4::text[]) o (name) WHERE pg_catalog.starts_with(o.name, 'column '))
			AND f.name <> ALL ($4::text[]) AND f.name <> ALL ($5::text[])
			AND (EXISTS (SELECT FROM unnest($4::text[]) o (name)
			WHERE pg_catalog.starts_with(o.name, split_part(f.name, ' ', 1) || ' ' || split_part(f.name, ' ', 2) || ' '))
			OR NOT EXISTS (SELECT FROM unnest($5::text[]) o (name)
				WHERE pg_catalog.starts_with(o.name, split_part(f.name, ' ', 1) || ' ' || split_part(f.name, ' ', 2) || ' ')))
		ORDER BY 1`
)
