package exchange

// The statements read the catalogues and answer statements. They run with search_path set to the
// schema of the old tables: pg_get_viewdef and pg_get_constraintdef then leave names in it
// unqualified, and so does what they answer mean the new tables once those are in reach by their
// names.
const (
	querySearched     = `SELECT current_setting('search_path')`
	querySearchBefore = `SELECT set_config('search_path', pg_catalog.quote_ident($1) || ', ' ||
		current_setting('search_path'), true)`
	querySearchPath = `SELECT set_config('search_path', $1, true)`

	// leaving are the relations that leave schema $1: the tables $3, and the views and sequences that
	// schema $2 has a successor for.
	leaving = `leaving AS (
			SELECT c.oid, c.relname, c.relkind FROM pg_catalog.pg_class c
				JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
			WHERE s.nspname = $1 AND (c.relname = ANY ($3::text[]) AND c.relkind IN ('r', 'p') OR c.relkind IN ('v', 'S')
				AND EXISTS (
				SELECT FROM pg_catalog.pg_class n JOIN pg_catalog.pg_namespace ns ON ns.oid = n.relnamespace WHERE ns.nspname = $2
					AND n.relname = c.relname AND n.relkind = c.relkind))
		)`

	// moving is what leaves schema $1 with all that is part of it: relations, their indexes,
	// constraints, row types and sequences, and the types and functions that schema $2 has successors
	// for. Of what hangs on it, standing, on is one such thing and part_of the relation that what
	// hangs is part of.
	moving = leaving + `, ` + owned + `, inside AS (
			SELECT 'pg_class'::regclass::oid AS class, l.oid, l.relname::text AS name FROM leaving l
			UNION ALL SELECT 'pg_class'::regclass, x.indexrelid, l.relname FROM leaving l
				JOIN pg_catalog.pg_index x ON x.indrelid = l.oid
			UNION ALL SELECT 'pg_class'::regclass, d.objid, l.relname FROM leaving l
				JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = l.oid AND d.refobjsubid > 0
				AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i') AND d.objid NOT IN (SELECT o.oid FROM owned o)
			UNION ALL SELECT 'pg_constraint'::regclass, k.oid, l.relname FROM leaving l
				JOIN pg_catalog.pg_constraint k ON k.conrelid = l.oid
			UNION ALL SELECT 'pg_type'::regclass, t.oid, l.relname FROM leaving l
				JOIN pg_catalog.pg_type y ON y.typrelid = l.oid JOIN pg_catalog.pg_type t ON t.oid IN (y.oid, y.typarray)
			UNION ALL SELECT 'pg_type'::regclass, t.oid, y.typname FROM pg_catalog.pg_type y
				JOIN pg_catalog.pg_type t ON t.oid IN (y.oid, y.typarray)
				WHERE y.typnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1)) AND y.typtype IN ('e', 'd', 'r')
					AND EXISTS (
					SELECT FROM pg_catalog.pg_type n WHERE n.typnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($2))
						AND n.typname = y.typname)
			UNION ALL SELECT 'pg_proc'::regclass, f.oid, f.proname FROM pg_catalog.pg_proc f
				WHERE f.pronamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1)) AND EXISTS (
				SELECT FROM pg_catalog.pg_proc n WHERE n.pronamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($2))
					AND n.proname = f.proname
					AND pg_catalog.pg_get_function_identity_arguments(n.oid) = pg_catalog.pg_get_function_identity_arguments(f.oid))
		), standing AS (
			SELECT DISTINCT d.classid, d.objid, d.objsubid, d.refclassid, r.rulename,
				coalesce(r.ev_class, k.conrelid, a.adrelid, g.tgrelid, y.polrelid, s.stxrelid) AS part_of, i.name AS on
			FROM inside i JOIN pg_catalog.pg_depend d ON d.refclassid = i.class AND d.refobjid = i.oid
				AND d.deptype IN ('n', 'a')
			LEFT JOIN pg_catalog.pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
			LEFT JOIN pg_catalog.pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid
			LEFT JOIN pg_catalog.pg_attrdef a ON d.classid = 'pg_attrdef'::regclass AND a.oid = d.objid
			LEFT JOIN pg_catalog.pg_trigger g ON d.classid = 'pg_trigger'::regclass AND g.oid = d.objid
			LEFT JOIN pg_catalog.pg_policy y ON d.classid = 'pg_policy'::regclass AND y.oid = d.objid
			LEFT JOIN pg_catalog.pg_statistic_ext s ON d.classid = 'pg_statistic_ext'::regclass AND s.oid = d.objid
			WHERE d.objid NOT IN (SELECT o.oid FROM owned o)
				AND NOT EXISTS (SELECT FROM inside o WHERE (o.class, o.oid) = (d.classid, d.objid)
				OR o.class = 'pg_class'::regclass AND o.oid = coalesce(r.ev_class, k.conrelid, a.adrelid, g.tgrelid, y.polrelid,
					s.stxrelid))
		)`

	// queryBlocked answers what would go on with what leaves: all that stands on it but views and
	// rules, which can be made anew.
	queryBlocked = `WITH ` + moving + `
		SELECT DISTINCT CASE
			WHEN c.relkind = 'm' THEN pg_catalog.format('materialized view %s on %I', c.oid::regclass, s.on)
			WHEN k.contype = 'f' THEN pg_catalog.format('foreign key %I of table %s to %I', k.conname, k.conrelid::regclass,
				s.on)
			WHEN s.classid = 'pg_proc'::regclass
				AND s.refclassid = 'pg_class'::regclass THEN pg_catalog.format('function %s, whose body is bound to %I',
				s.objid::regprocedure, s.on)
			WHEN s.classid = 'pg_proc'::regclass
				AND s.refclassid = 'pg_type'::regclass THEN
				pg_catalog.format('function %s, whose arguments or result are of the type %I', s.objid::regprocedure, s.on)
			WHEN p.oid IS NOT NULL THEN
				pg_catalog.format('publication %I, whose subscribers would not be sent the rows of the new table %I '
					|| '(take the table out, add it again afterwards, and have subscribers copy it anew)', p.pubname, s.on)
			ELSE pg_catalog.format('%s, which stands on %I', pg_catalog.pg_describe_object(s.classid, s.objid, s.objsubid),
				s.on) END
		FROM standing s LEFT JOIN pg_catalog.pg_class c ON c.oid = s.part_of AND s.classid = 'pg_rewrite'::regclass
		LEFT JOIN pg_catalog.pg_constraint k ON s.classid = 'pg_constraint'::regclass AND k.oid = s.objid
		LEFT JOIN pg_catalog.pg_publication_rel b ON s.classid = 'pg_publication_rel'::regclass AND b.oid = s.objid LEFT
			JOIN pg_catalog.pg_publication p ON p.oid = b.prpubid
		WHERE c.relkind IS NULL OR c.relkind NOT IN ('r', 'p', 'v') ORDER BY 1`

	// queryViews answers how to make anew the views on what leaves, and others' rules that write to it.
	queryViews = `WITH ` + moving + `
		SELECT pg_catalog.format('CREATE OR REPLACE VIEW %I.%I%s AS %s', n.nspname, v.relname,
			' WITH (' || pg_catalog.array_to_string(v.reloptions, ', ') || ')', pg_catalog.pg_get_viewdef(v.oid)),
			pg_catalog.format('view %I.%I', n.nspname, v.relname)
		FROM (SELECT DISTINCT s.part_of FROM standing s WHERE s.rulename = '_RETURN') u
			JOIN pg_catalog.pg_class v ON v.oid = u.part_of AND v.relkind = 'v'
			JOIN pg_catalog.pg_namespace n ON n.oid = v.relnamespace
		UNION ALL
		SELECT regexp_replace(pg_catalog.pg_get_ruledef(u.objid), '^CREATE RULE', 'CREATE OR REPLACE RULE'),
			pg_catalog.format('rule %I on %s', u.rulename, u.part_of::regclass)
		FROM (SELECT DISTINCT s.objid, s.rulename, s.part_of FROM standing s WHERE s.rulename <> '_RETURN') u ORDER BY 1 DESC`

	// queryAfter answers what to do once the tables are in their place: rules that were added to those
	// that leave, but for those among $4, and whose sequences they are.
	queryAfter = `WITH ` + leaving + `, ` + owned + `, rules AS (
			SELECT l.relname, l.oid AS table, r.* FROM leaving l JOIN pg_catalog.pg_rewrite r ON r.ev_class = l.oid
				AND r.rulename <> '_RETURN'
			WHERE pg_catalog.format('rule %s.%s', l.relname, r.rulename) <> ALL ($4::text[]) AND NOT EXISTS (
				SELECT FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_class n ON n.oid = w.ev_class
					WHERE n.relnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($2)) AND n.relname = l.relname
					AND w.rulename = r.rulename)
		)
		SELECT a.sql FROM (
			SELECT 1, pg_catalog.pg_get_ruledef(r.oid) FROM rules r
			UNION ALL
			SELECT 2, pg_catalog.format('ALTER TABLE %I.%I %s RULE %I', $1::text, r.relname, CASE r.ev_enabled
				WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, r.rulename)
			FROM rules r WHERE r.ev_enabled <> 'O'
			UNION ALL
			SELECT 2, pg_catalog.format('COMMENT ON RULE %I ON %I.%I IS %L', r.rulename, $1::text, r.relname,
				pg_catalog.obj_description(r.oid, 'pg_rewrite')) FROM rules r
			WHERE pg_catalog.obj_description(r.oid, 'pg_rewrite') IS NOT NULL
			UNION ALL
			SELECT 3, pg_catalog.format('ALTER SEQUENCE %I.%I OWNED BY %I.%I.%I', $1::text, o.relname, $1::text, o.table_name,
				o.attname) FROM owned o
		) a (ord, sql) ORDER BY a.ord, a.sql`

	// owned are sequences that have been made columns' of tables that leave, and that schema $2 has no successor for.
	owned = `owned AS (
			SELECT c.oid, c.relname, l.relname AS table_name, t.attname
			FROM leaving l JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = l.oid
				AND d.classid = 'pg_class'::regclass AND d.deptype = 'a'
			JOIN pg_catalog.pg_class c ON c.oid = d.objid AND c.relkind = 'S'
				JOIN pg_catalog.pg_attribute t ON t.attrelid = l.oid AND t.attnum = d.refobjsubid
			WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class n
				WHERE n.relnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($2)) AND n.relname = c.relname
				AND n.relkind = 'S')
		)`

	// queryMove answers how to move what leaves schema $1 to schema $4, and then all that is in schema
	// $2 to schema $1: relations (a sequence that a column owns comes with its table, but one that a
	// user has made its own stays), types, functions, and statistics, which go to wherever those of
	// the old tables were.
	queryMove = `WITH ` + leaving + `, ` + owned + `, free AS (
			SELECT c.oid, c.relname, c.relkind, s.nspname FROM pg_catalog.pg_class c
				JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
			WHERE (c.oid IN (SELECT l.oid FROM leaving l) OR s.nspname = $2 AND c.relkind IN ('r', 'p', 'v', 'S'))
				AND NOT (c.relkind = 'S' AND EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_class'::regclass
					AND d.objid = c.oid AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0))
		), types AS (
			SELECT s.nspname, y.typname FROM pg_catalog.pg_type y JOIN pg_catalog.pg_namespace s ON s.oid = y.typnamespace
			WHERE s.nspname IN ($1, $2) AND (y.typtype IN ('e', 'd', 'r') OR y.typtype = 'c'
				AND EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = y.typrelid AND c.relkind = 'c'))
		), functions AS (
			SELECT s.nspname, f.proname, pg_catalog.pg_get_function_identity_arguments(f.oid) AS args
			FROM pg_catalog.pg_proc f JOIN pg_catalog.pg_namespace s ON s.oid = f.pronamespace WHERE s.nspname IN ($1, $2)
				AND f.prokind IN ('f', 'p')
		), statistics AS (
			SELECT t.relname, s.nspname AS tables, n.nspname, x.stxname FROM pg_catalog.pg_statistic_ext x
				JOIN pg_catalog.pg_namespace n ON n.oid = x.stxnamespace
			JOIN pg_catalog.pg_class t ON t.oid = x.stxrelid JOIN pg_catalog.pg_namespace s ON s.oid = t.relnamespace
			WHERE t.oid IN (SELECT l.oid FROM leaving l) OR s.nspname = $2
		), moves AS (
			SELECT f.nspname, pg_catalog.format('ALTER %s %I.%I', CASE f.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE'
				ELSE 'TABLE' END, f.nspname, f.relname) AS what FROM free f
			UNION ALL
			SELECT t.nspname, pg_catalog.format('ALTER TYPE %I.%I', t.nspname, t.typname) FROM types t
			WHERE t.nspname = $2 OR EXISTS (SELECT FROM types n WHERE n.nspname = $2 AND n.typname = t.typname)
			UNION ALL
			SELECT f.nspname, pg_catalog.format('ALTER ROUTINE %I.%I(%s)', f.nspname, f.proname, f.args) FROM functions f
			WHERE f.nspname = $2 OR $5 <> '' AND pg_catalog.starts_with(f.proname::text, $5)
				OR EXISTS (SELECT FROM functions n WHERE n.nspname = $2 AND n.proname = f.proname AND n.args = f.args)
		)
		SELECT m.sql FROM (
			SELECT 1, pg_catalog.format('ALTER SEQUENCE %I.%I OWNED BY NONE', $1::text, o.relname) FROM owned o
			UNION ALL
			SELECT CASE x.tables WHEN $1 THEN 2 ELSE 3 END,
				pg_catalog.format('ALTER STATISTICS %I.%I SET SCHEMA %I', x.nspname, x.stxname, CASE x.tables WHEN $1 THEN $4
				ELSE coalesce(
				(SELECT o.nspname FROM statistics o WHERE o.tables = $1 AND (o.relname, o.stxname) = (x.relname, x.stxname)),
					$1) END)
			FROM statistics x
			UNION ALL
			SELECT CASE m.nspname WHEN $1 THEN 2 ELSE 3 END,
				pg_catalog.format('%s SET SCHEMA %I', m.what, CASE m.nspname WHEN $1 THEN $4 ELSE $1 END) FROM moves m
		) m (ord, sql) ORDER BY m.ord, m.sql`

	// queryGuests answers what stands on something in a schema and is not in it itself: it would go with the schema.
	queryGuests = `WITH inside AS (
			SELECT 'pg_catalog.pg_class'::regclass::oid AS class, c.oid FROM pg_catalog.pg_class c
				WHERE c.relnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1))
			UNION ALL SELECT 'pg_catalog.pg_type'::regclass, y.oid FROM pg_catalog.pg_type y
				WHERE y.typnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1))
			UNION ALL SELECT 'pg_catalog.pg_proc'::regclass, f.oid FROM pg_catalog.pg_proc f
				WHERE f.pronamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1))
		), standing AS (
			SELECT DISTINCT d.classid, d.objid, coalesce(r.ev_class, k.conrelid, a.adrelid, g.tgrelid, y.polrelid,
				x.stxrelid) AS part_of
			FROM inside i JOIN pg_catalog.pg_depend d ON d.refclassid = i.class AND d.refobjid = i.oid
				AND d.deptype IN ('n', 'a')
			LEFT JOIN pg_catalog.pg_rewrite r ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND r.oid = d.objid
			LEFT JOIN pg_catalog.pg_constraint k ON d.classid = 'pg_catalog.pg_constraint'::regclass AND k.oid = d.objid
			LEFT JOIN pg_catalog.pg_attrdef a ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND a.oid = d.objid
			LEFT JOIN pg_catalog.pg_trigger g ON d.classid = 'pg_catalog.pg_trigger'::regclass AND g.oid = d.objid
			LEFT JOIN pg_catalog.pg_policy y ON d.classid = 'pg_catalog.pg_policy'::regclass AND y.oid = d.objid
			LEFT JOIN pg_catalog.pg_statistic_ext x ON d.classid = 'pg_catalog.pg_statistic_ext'::regclass AND x.oid = d.objid
		)
		SELECT DISTINCT CASE WHEN s.classid = 'pg_catalog.pg_rewrite'::regclass THEN
			pg_catalog.pg_describe_object('pg_catalog.pg_class'::regclass, s.part_of, 0)
			ELSE pg_catalog.pg_describe_object(s.classid, s.objid, 0) END
		FROM standing s
		WHERE NOT EXISTS (SELECT FROM inside i WHERE (i.class, i.oid) = (s.classid, s.objid)
			OR i.class = 'pg_catalog.pg_class'::regclass AND i.oid = s.part_of) ORDER BY 1`
)
