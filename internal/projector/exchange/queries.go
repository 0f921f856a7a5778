package exchange

// The statements read the catalogues and return statements. search_path is the schema of the old
// tables, so unqualified names mean the new tables once these are there.
const (
	querySearched     = `SELECT current_setting('search_path')`
	querySearchBefore = `SELECT set_config('search_path', pg_catalog.quote_ident($1) || ', ' ||
		current_setting('search_path'), true)`
	querySearchPath = `SELECT set_config('search_path', $1, true)`

	// leaving lists what leaves schema $1: the tables $3, and views and sequences that schema $2 replaces.
	leaving = `leaving AS (
			SELECT c.oid, c.relname, c.relkind FROM pg_catalog.pg_class c
				JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
			WHERE s.nspname = $1 AND (c.relname = ANY ($3::text[]) AND c.relkind IN ('r', 'p') OR c.relkind IN ('v', 'S')
				AND EXISTS (
				SELECT FROM pg_catalog.pg_class n JOIN pg_catalog.pg_namespace ns ON ns.oid = n.relnamespace WHERE ns.nspname = $2
					AND n.relname = c.relname AND n.relkind = c.relkind))
		)`

	// others lists what schemas $1 and $2 have besides relations and statistics: types, routines,
	// operators and their classes, collations, text search. key is the same in both schemas.
	others = `others AS (
			SELECT s.nspname, d.classid AS class, d.objid AS oid, k.kind, i.identity,
				replace(k.kind || ' ' || i.identity, pg_catalog.quote_ident(s.nspname) || '.', '') AS key,
				coalesce(i.name, f.proname::text, i.identity) AS name
			FROM pg_catalog.pg_namespace s JOIN pg_catalog.pg_depend d
				ON d.refclassid = 'pg_catalog.pg_namespace'::regclass AND d.refobjid = s.oid
			CROSS JOIN LATERAL pg_catalog.pg_identify_object(d.classid, d.objid, 0) i
			LEFT JOIN pg_catalog.pg_proc f ON d.classid = 'pg_catalog.pg_proc'::regclass AND f.oid = d.objid
			CROSS JOIN LATERAL (SELECT CASE WHEN f.oid IS NOT NULL THEN 'ROUTINE' WHEN i.type = 'composite type' THEN 'TYPE'
				ELSE upper(i.type) END) k (kind)
			WHERE s.nspname IN ($1, $2) AND d.classid NOT IN ('pg_catalog.pg_statistic_ext'::regclass,
				'pg_catalog.pg_default_acl'::regclass, 'pg_catalog.pg_publication_namespace'::regclass)
				AND (d.classid <> 'pg_catalog.pg_class'::regclass OR i.type = 'composite type')
		)`

	// closure adds the parts of what is inside: constraints of domains, parts of operator classes.
	closure = `UNION SELECT d.classid, d.objid, i.name FROM inside i
			JOIN pg_catalog.pg_depend d ON d.refclassid = i.class AND d.refobjid = i.oid AND d.deptype IN ('a', 'i')
			WHERE i.class <> 'pg_catalog.pg_class'::regclass OR EXISTS (
				SELECT FROM pg_catalog.pg_class c WHERE c.oid = i.oid AND c.relkind = 'c')`

	// moving lists everything that leaves schema $1: relations with their indexes, constraints, row
	// types and sequences, what else schema $2 replaces, and the parts of that.
	moving = leaving + `, ` + others + `, members AS (
			SELECT 'pg_class'::regclass::oid AS class, l.oid, l.relname::text AS name FROM leaving l
			UNION ALL SELECT 'pg_class'::regclass, x.indexrelid, l.relname FROM leaving l
				JOIN pg_catalog.pg_index x ON x.indrelid = l.oid
			UNION ALL SELECT 'pg_class'::regclass, d.objid, l.relname FROM leaving l
				JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = l.oid AND d.refobjsubid > 0
				AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
			UNION ALL SELECT 'pg_constraint'::regclass, k.oid, l.relname FROM leaving l
				JOIN pg_catalog.pg_constraint k ON k.conrelid = l.oid
			UNION ALL SELECT 'pg_type'::regclass, t.oid, l.relname FROM leaving l
				JOIN pg_catalog.pg_type y ON y.typrelid = l.oid JOIN pg_catalog.pg_type t ON t.oid IN (y.oid, y.typarray)
			UNION ALL SELECT o.class, o.oid, o.name FROM others o WHERE o.nspname = $1 AND EXISTS (
				SELECT FROM others n WHERE n.nspname = $2 AND n.key = o.key)
		), inside AS (
			SELECT m.class, m.oid, m.name FROM members m
			` + closure + `
		), ` + standing

	// standing lists objects that depend on inside and are not part of it. on is the object they
	// depend on, part_of the relation they are part of.
	standing = `standing AS (
			SELECT DISTINCT d.classid, d.objid, d.objsubid, r.rulename, i.name AS on,
				coalesce(r.ev_class, k.conrelid, a.adrelid, g.tgrelid, y.polrelid, s.stxrelid) AS part_of
			FROM inside i JOIN pg_catalog.pg_depend d ON d.refclassid = i.class AND d.refobjid = i.oid
				AND d.deptype IN ('n', 'a')
			LEFT JOIN pg_catalog.pg_rewrite r ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND r.oid = d.objid
			LEFT JOIN pg_catalog.pg_constraint k ON d.classid = 'pg_catalog.pg_constraint'::regclass AND k.oid = d.objid
			LEFT JOIN pg_catalog.pg_attrdef a ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND a.oid = d.objid
			LEFT JOIN pg_catalog.pg_trigger g ON d.classid = 'pg_catalog.pg_trigger'::regclass AND g.oid = d.objid
			LEFT JOIN pg_catalog.pg_policy y ON d.classid = 'pg_catalog.pg_policy'::regclass AND y.oid = d.objid
			LEFT JOIN pg_catalog.pg_statistic_ext s ON d.classid = 'pg_catalog.pg_statistic_ext'::regclass
				AND s.oid = d.objid
			WHERE NOT EXISTS (SELECT FROM inside o WHERE (o.class, o.oid) = (d.classid, d.objid)
				OR o.class = 'pg_catalog.pg_class'::regclass AND o.oid = coalesce(r.ev_class, k.conrelid, a.adrelid, g.tgrelid,
					y.polrelid, s.stxrelid))
		)`

	// queryBlocked returns what depends on the leaving objects, except views, which can be recreated.
	queryBlocked = `WITH RECURSIVE ` + moving + `
		SELECT DISTINCT pg_catalog.format('%s, which stands on %I',
			pg_catalog.pg_describe_object(s.classid, s.objid, s.objsubid), s.on)
		FROM standing s LEFT JOIN pg_catalog.pg_class c ON c.oid = s.part_of AND s.classid = 'pg_rewrite'::regclass
		WHERE c.relkind IS DISTINCT FROM 'v' OR s.rulename <> '_RETURN' ORDER BY 1`

	// queryViews returns statements that recreate the views on the leaving objects.
	queryViews = `WITH RECURSIVE ` + moving + `
		SELECT pg_catalog.format('CREATE OR REPLACE VIEW %I.%I%s AS %s', n.nspname, v.relname,
			' WITH (' || pg_catalog.array_to_string(v.reloptions, ', ') || ')', pg_catalog.pg_get_viewdef(v.oid)),
			pg_catalog.format('view %I.%I', n.nspname, v.relname)
		FROM (SELECT DISTINCT s.part_of FROM standing s WHERE s.rulename = '_RETURN') u
			JOIN pg_catalog.pg_class v ON v.oid = u.part_of AND v.relkind = 'v'
			JOIN pg_catalog.pg_namespace n ON n.oid = v.relnamespace
		ORDER BY 1 DESC`

	// queryMove returns statements that move the leaving objects to schema $4, and then everything in
	// schema $2 to schema $1: relations (an owned sequence follows its table), statistics and others.
	// Operators and routines go first, because the types in their names must be where they were.
	queryMove = `WITH ` + leaving + `, free AS (
			SELECT c.oid, c.relname, c.relkind, s.nspname FROM pg_catalog.pg_class c
				JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
			WHERE (c.oid IN (SELECT l.oid FROM leaving l) OR s.nspname = $2 AND c.relkind IN ('r', 'p', 'v', 'S'))
				AND NOT (c.relkind = 'S' AND EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_class'::regclass
					AND d.objid = c.oid AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0))
		), ` + others + `, moves AS (
			SELECT f.nspname, pg_catalog.format('ALTER %s %I.%I', CASE f.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE'
				ELSE 'TABLE' END, f.nspname, f.relname) AS what FROM free f
			UNION ALL
			SELECT o.nspname, pg_catalog.format('ALTER %s %s', o.kind, o.identity) FROM others o
			WHERE o.nspname = $2 OR EXISTS (SELECT FROM others n WHERE n.nspname = $2 AND n.key = o.key)
				OR $5 <> '' AND o.class = 'pg_catalog.pg_proc'::regclass AND pg_catalog.starts_with(o.name, $5)
			UNION ALL
			SELECT s.nspname, pg_catalog.format('ALTER STATISTICS %I.%I', s.nspname, x.stxname)
			FROM pg_catalog.pg_statistic_ext x JOIN pg_catalog.pg_namespace s ON s.oid = x.stxnamespace
			WHERE s.nspname = $1 AND x.stxrelid IN (SELECT l.oid FROM leaving l) OR s.nspname = $2
		)
		SELECT m.sql FROM (
			SELECT CASE m.nspname WHEN $1 THEN 1 ELSE 2 END,
				pg_catalog.format('%s SET SCHEMA %I', m.what, CASE m.nspname WHEN $1 THEN $4 ELSE $1 END) FROM moves m
		) m (ord, sql) ORDER BY m.ord, m.sql`

	// queryGuests returns objects outside a schema that depend on it: they would be dropped with it.
	queryGuests = `WITH RECURSIVE inside AS (
			SELECT 'pg_catalog.pg_class'::regclass::oid AS class, c.oid, '' AS name FROM pg_catalog.pg_class c
				WHERE c.relnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1))
			UNION ALL SELECT 'pg_catalog.pg_type'::regclass, y.oid, '' FROM pg_catalog.pg_type y
				WHERE y.typnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1))
			UNION ALL SELECT d.classid, d.objid, '' FROM pg_catalog.pg_depend d
				WHERE d.refclassid = 'pg_catalog.pg_namespace'::regclass
					AND d.refobjid = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1))
			` + closure + `
		), ` + standing + `
		SELECT DISTINCT CASE WHEN s.classid = 'pg_catalog.pg_rewrite'::regclass THEN
			pg_catalog.pg_describe_object('pg_catalog.pg_class'::regclass, s.part_of, 0)
			ELSE pg_catalog.pg_describe_object(s.classid, s.objid, 0) END
		FROM standing s ORDER BY 1`
)
