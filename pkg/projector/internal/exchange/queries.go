package exchange

// The statements read the catalogues and answer statements. They run with search_path set to the schema of the old tables: pg_get_viewdef and pg_get_constraintdef then leave names
// in it unqualified, and so does what they answer mean the new tables once those are in reach by their names.
const (
	// queryObjects answers the indexes and constraints of tables, as table.name.
	queryObjects = `SELECT t.relname || '.' || o.name
		FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace s ON s.oid = t.relnamespace
		CROSS JOIN LATERAL (
			SELECT i.relname::text FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid WHERE x.indrelid = t.oid
			UNION
			SELECT c.conname::text FROM pg_catalog.pg_constraint c WHERE c.conrelid = t.oid
		) o (name)
		WHERE s.nspname = $1 AND t.relname = ANY ($2::text[]) ORDER BY 1`

	// queryAdded answers how to give the tables in schema $2 what those of the same names in schema $1 have been given since they were made: indexes and constraints that are not among $4.
	queryAdded = `WITH tables AS (
			SELECT o.oid AS old, n.oid AS new, o.relname
			FROM pg_catalog.pg_class o JOIN pg_catalog.pg_namespace os ON os.oid = o.relnamespace AND os.nspname = $1
			JOIN pg_catalog.pg_class n ON n.relname = o.relname JOIN pg_catalog.pg_namespace ns ON ns.oid = n.relnamespace AND ns.nspname = $2
			WHERE o.relname = ANY ($3::text[]) AND o.relkind IN ('r', 'p') AND n.relkind IN ('r', 'p')
		)
		SELECT a.sql, a.name FROM (
			SELECT 1, t.relname || '.' || i.relname, replace(pg_catalog.pg_get_indexdef(i.oid), format(' %I.%I USING ', $1::text, t.relname), format(' %I.%I USING ', $2::text, t.relname))
			FROM tables t JOIN pg_catalog.pg_index x ON x.indrelid = t.old AND x.indisvalid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
			WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_constraint c WHERE c.conindid = i.oid AND c.conrelid = t.old)
				AND NOT EXISTS (SELECT FROM pg_catalog.pg_index y JOIN pg_catalog.pg_class j ON j.oid = y.indexrelid WHERE y.indrelid = t.new AND j.relname = i.relname)
			UNION ALL
			SELECT 2, t.relname || '.' || c.conname, format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', $2::text, t.relname, c.conname, pg_catalog.pg_get_constraintdef(c.oid))
			FROM tables t JOIN pg_catalog.pg_constraint c ON c.conrelid = t.old AND c.contype IN ('c', 'f', 'u', 'p', 'x') AND c.conparentid = 0
			WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_constraint d WHERE d.conrelid = t.new AND d.conname = c.conname)
		) a (ord, name, sql)
		WHERE a.name <> ALL ($4::text[]) ORDER BY a.ord, a.name`

	// queryCarry answers how to give each table, view and sequence in schema $2 the owner, grants, comments, policies, triggers and settings of that of the same name in schema $1.
	queryCarry = `WITH pairs AS (
			SELECT o.oid AS old, n.oid AS new, o.relname, o.relkind, o.relowner, n.relowner AS new_owner, o.relacl, n.relacl AS new_acl, o.relrowsecurity, o.relforcerowsecurity,
				o.reloptions, n.reloptions AS new_options, format('%I.%I', $2::text, n.relname) AS target,
				CASE o.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS kind
			FROM pg_catalog.pg_class o JOIN pg_catalog.pg_namespace os ON os.oid = o.relnamespace AND os.nspname = $1
			JOIN pg_catalog.pg_class n ON n.relname = o.relname JOIN pg_catalog.pg_namespace ns ON ns.oid = n.relnamespace AND ns.nspname = $2
			WHERE o.relkind IN ('r', 'p', 'v', 'S') AND n.relkind IN ('r', 'p', 'v', 'S')
		), grants AS (
			SELECT p.target, p.kind, '' AS column_name, a.grantee, a.privilege_type, a.is_grantable, true AS old
			FROM pairs p CROSS JOIN LATERAL aclexplode(p.relacl) a WHERE a.grantee <> p.relowner
			UNION ALL
			SELECT p.target, p.kind, '', a.grantee, a.privilege_type, a.is_grantable, false
			FROM pairs p CROSS JOIN LATERAL aclexplode(p.new_acl) a WHERE a.grantee <> p.new_owner
			UNION ALL
			SELECT p.target, p.kind, format('(%I)', c.attname), a.grantee, a.privilege_type, a.is_grantable, true
			FROM pairs p JOIN pg_catalog.pg_attribute c ON c.attrelid = p.old AND NOT c.attisdropped CROSS JOIN LATERAL aclexplode(c.attacl) a
			WHERE EXISTS (SELECT FROM pg_catalog.pg_attribute n WHERE n.attrelid = p.new AND n.attname = c.attname AND NOT n.attisdropped)
		), changes AS (
			SELECT g.target, g.kind, g.column_name, g.grantee, g.privilege_type, bool_or(g.is_grantable) AS is_grantable, bool_or(g.old) AS old
			FROM grants g GROUP BY 1, 2, 3, 4, 5 HAVING bool_or(g.old) <> bool_or(NOT g.old)
		), named AS (
			SELECT c.*, CASE c.grantee WHEN 0 THEN 'PUBLIC' ELSE (SELECT format('%I', r.rolname) FROM pg_catalog.pg_roles r WHERE r.oid = c.grantee) END AS who,
				format('%s%s ON %s %s', c.privilege_type, c.column_name, CASE c.kind WHEN 'VIEW' THEN 'TABLE' ELSE c.kind END, c.target) AS what
			FROM changes c
		)
		SELECT s.sql FROM (
			SELECT 1, CASE WHEN n.old THEN format('GRANT %s TO %s%s', n.what, n.who, CASE WHEN n.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
				ELSE format('REVOKE %s FROM %s', n.what, n.who) END
			FROM named n
			UNION ALL
			SELECT 2, format('COMMENT ON %s %s IS %L', p.kind, p.target, pg_catalog.obj_description(p.old, 'pg_class')) FROM pairs p
			WHERE pg_catalog.obj_description(p.old, 'pg_class') IS NOT NULL AND pg_catalog.obj_description(p.new, 'pg_class') IS NULL
			UNION ALL
			SELECT 2, format('COMMENT ON COLUMN %s.%I IS %L', p.target, n.attname, pg_catalog.col_description(p.old, c.attnum))
			FROM pairs p JOIN pg_catalog.pg_attribute c ON c.attrelid = p.old AND c.attnum > 0 AND NOT c.attisdropped
			JOIN pg_catalog.pg_attribute n ON n.attrelid = p.new AND n.attname = c.attname
			WHERE p.kind <> 'SEQUENCE' AND pg_catalog.col_description(p.old, c.attnum) IS NOT NULL AND pg_catalog.col_description(p.new, n.attnum) IS NULL
			UNION ALL
			SELECT 2, format('COMMENT ON INDEX %I.%I IS %L', $2::text, j.relname, pg_catalog.obj_description(i.oid, 'pg_class'))
			FROM pairs p JOIN pg_catalog.pg_index x ON x.indrelid = p.old JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
			JOIN pg_catalog.pg_index y ON y.indrelid = p.new JOIN pg_catalog.pg_class j ON j.oid = y.indexrelid AND j.relname = i.relname
			WHERE pg_catalog.obj_description(i.oid, 'pg_class') IS NOT NULL AND pg_catalog.obj_description(j.oid, 'pg_class') IS NULL
			UNION ALL
			SELECT 2, format('COMMENT ON CONSTRAINT %I ON %s IS %L', d.conname, p.target, pg_catalog.obj_description(c.oid, 'pg_constraint'))
			FROM pairs p JOIN pg_catalog.pg_constraint c ON c.conrelid = p.old JOIN pg_catalog.pg_constraint d ON d.conrelid = p.new AND d.conname = c.conname
			WHERE pg_catalog.obj_description(c.oid, 'pg_constraint') IS NOT NULL AND pg_catalog.obj_description(d.oid, 'pg_constraint') IS NULL
			UNION ALL
			SELECT 2, format('ALTER TABLE %s SET (%s)', p.target, o.option) FROM pairs p CROSS JOIN LATERAL unnest(p.reloptions) o (option)
			WHERE p.kind = 'TABLE' AND split_part(o.option, '=', 1) <> ALL (SELECT split_part(x.option, '=', 1) FROM unnest(p.new_options) x (option))
			UNION ALL
			SELECT 3, format('CREATE POLICY %I ON %s AS %s FOR %s TO %s%s%s', y.polname, p.target, CASE WHEN y.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
				CASE y.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
				(SELECT string_agg(CASE r.id WHEN 0 THEN 'PUBLIC' ELSE (SELECT format('%I', a.rolname) FROM pg_catalog.pg_roles a WHERE a.oid = r.id) END, ', ') FROM unnest(y.polroles) r (id)),
				' USING (' || pg_catalog.pg_get_expr(y.polqual, y.polrelid) || ')', ' WITH CHECK (' || pg_catalog.pg_get_expr(y.polwithcheck, y.polrelid) || ')')
			FROM pairs p JOIN pg_catalog.pg_policy y ON y.polrelid = p.old
			WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_policy z WHERE z.polrelid = p.new AND z.polname = y.polname)
			UNION ALL
			SELECT 4, format('ALTER TABLE %s %s ROW LEVEL SECURITY', p.target, x.verb)
			FROM pairs p CROSS JOIN LATERAL (VALUES ('ENABLE', p.relrowsecurity), ('FORCE', p.relforcerowsecurity)) x (verb, wanted) WHERE x.wanted AND p.kind = 'TABLE'
			UNION ALL
			SELECT 5, replace(pg_catalog.pg_get_triggerdef(g.oid), format(' ON %I.%I ', $1::text, p.relname), format(' ON %s ', p.target))
			FROM pairs p JOIN pg_catalog.pg_trigger g ON g.tgrelid = p.old AND NOT g.tgisinternal AND g.tgparentid = 0
			WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger h WHERE h.tgrelid = p.new AND h.tgname = g.tgname)
			UNION ALL
			SELECT 6, format('ALTER TABLE %s %s TRIGGER %I', p.target, CASE g.tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, g.tgname)
			FROM pairs p JOIN pg_catalog.pg_trigger g ON g.tgrelid = p.old AND NOT g.tgisinternal AND g.tgparentid = 0 WHERE g.tgenabled <> 'O' AND p.kind = 'TABLE'
			UNION ALL
			SELECT 7, format('ALTER %s %s OWNER TO %I', p.kind, p.target, (SELECT r.rolname FROM pg_catalog.pg_roles r WHERE r.oid = p.relowner)) FROM pairs p
			WHERE p.relowner <> p.new_owner AND NOT (p.relkind = 'S' AND EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.objid = p.new AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0))
		) s (ord, sql)
		ORDER BY s.ord, s.sql`

	// leaving are the relations that leave schema $1: the tables $3, and the views and sequences that schema $2 has a successor for.
	leaving = `leaving AS (
			SELECT c.oid, c.relname, c.relkind FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
			WHERE s.nspname = $1 AND (c.relname = ANY ($3::text[]) AND c.relkind IN ('r', 'p') OR c.relkind IN ('v', 'S') AND EXISTS (
				SELECT FROM pg_catalog.pg_class n JOIN pg_catalog.pg_namespace ns ON ns.oid = n.relnamespace WHERE ns.nspname = $2 AND n.relname = c.relname AND n.relkind = c.relkind))
		)`

	// queryBlocked answers what would go on with the relations that leave.
	queryBlocked = `WITH ` + leaving + `
		SELECT b.what FROM (
			SELECT format('materialized view %s on %I', c.oid::regclass, l.relname)
			FROM leaving l JOIN pg_catalog.pg_depend d ON d.refobjid = l.oid AND d.classid = 'pg_rewrite'::regclass JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid
			JOIN pg_catalog.pg_class c ON c.oid = r.ev_class AND c.relkind = 'm'
			UNION
			SELECT format('foreign key %I of table %s to %I', k.conname, k.conrelid::regclass, l.relname)
			FROM leaving l JOIN pg_catalog.pg_constraint k ON k.confrelid = l.oid AND k.contype = 'f' WHERE k.conrelid NOT IN (SELECT o.oid FROM leaving o)
			UNION
			SELECT format('function %s, whose body is bound to %I', d.objid::regprocedure, l.relname)
			FROM leaving l JOIN pg_catalog.pg_depend d ON d.refobjid = l.oid AND d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_proc'::regclass
		) b (what) ORDER BY 1`

	// queryViews answers how to make anew the views on the relations that leave, but for those that leave themselves.
	queryViews = `WITH ` + leaving + `
		SELECT format('CREATE OR REPLACE VIEW %I.%I%s AS %s', s.nspname, v.relname, ' WITH (' || array_to_string(v.reloptions, ', ') || ')', pg_catalog.pg_get_viewdef(v.oid)),
			format('%I.%I', s.nspname, v.relname)
		FROM (
			SELECT DISTINCT r.ev_class FROM leaving l
			JOIN pg_catalog.pg_depend d ON d.refobjid = l.oid AND d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_rewrite'::regclass
			JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid
		) u JOIN pg_catalog.pg_class v ON v.oid = u.ev_class AND v.relkind = 'v' JOIN pg_catalog.pg_namespace s ON s.oid = v.relnamespace
		WHERE v.oid NOT IN (SELECT l.oid FROM leaving l) ORDER BY 1`

	// queryMove answers how to move what leaves schema $1 to schema $4, and then all that is in schema $2 to schema $1: relations (a sequence that a column owns comes with its table), types and functions.
	queryMove = `WITH ` + leaving + `, free AS (
			SELECT c.oid, c.relname, c.relkind, s.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
			WHERE (c.oid IN (SELECT l.oid FROM leaving l) OR s.nspname = $2 AND c.relkind IN ('r', 'p', 'v', 'S'))
				AND NOT (c.relkind = 'S' AND EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0))
		), types AS (
			SELECT s.nspname, y.typname FROM pg_catalog.pg_type y JOIN pg_catalog.pg_namespace s ON s.oid = y.typnamespace
			WHERE s.nspname IN ($1, $2) AND (y.typtype IN ('e', 'd', 'r') OR y.typtype = 'c' AND EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = y.typrelid AND c.relkind = 'c'))
		), functions AS (
			SELECT s.nspname, f.proname, pg_catalog.pg_get_function_identity_arguments(f.oid) AS args
			FROM pg_catalog.pg_proc f JOIN pg_catalog.pg_namespace s ON s.oid = f.pronamespace WHERE s.nspname IN ($1, $2) AND f.prokind IN ('f', 'p')
		), moves AS (
			SELECT f.nspname, format('ALTER %s %I.%I', CASE f.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, f.nspname, f.relname) AS what FROM free f
			UNION ALL
			SELECT t.nspname, format('ALTER TYPE %I.%I', t.nspname, t.typname) FROM types t
			WHERE t.nspname = $2 OR EXISTS (SELECT FROM types n WHERE n.nspname = $2 AND n.typname = t.typname)
			UNION ALL
			SELECT f.nspname, format('ALTER ROUTINE %I.%I(%s)', f.nspname, f.proname, f.args) FROM functions f
			WHERE f.nspname = $2 OR $5 <> '' AND starts_with(f.proname::text, $5) OR EXISTS (SELECT FROM functions n WHERE n.nspname = $2 AND n.proname = f.proname AND n.args = f.args)
		)
		SELECT format('%s SET SCHEMA %I', m.what, CASE m.nspname WHEN $1 THEN $4 ELSE $1 END) FROM moves m ORDER BY m.nspname <> $1, 1`

	// queryGuests answers what stands on something in a schema and is not in it itself: it would go with the schema.
	queryGuests = `WITH inside AS (
			SELECT 'pg_catalog.pg_class'::regclass::oid AS class, c.oid FROM pg_catalog.pg_class c WHERE c.relnamespace = to_regnamespace(quote_ident($1))
			UNION ALL SELECT 'pg_catalog.pg_type'::regclass, y.oid FROM pg_catalog.pg_type y WHERE y.typnamespace = to_regnamespace(quote_ident($1))
			UNION ALL SELECT 'pg_catalog.pg_proc'::regclass, f.oid FROM pg_catalog.pg_proc f WHERE f.pronamespace = to_regnamespace(quote_ident($1))
		), standing AS (
			SELECT DISTINCT d.classid, d.objid, coalesce(r.ev_class, k.conrelid, a.adrelid, g.tgrelid, y.polrelid) AS part_of
			FROM inside i JOIN pg_catalog.pg_depend d ON d.refclassid = i.class AND d.refobjid = i.oid AND d.deptype IN ('n', 'a')
			LEFT JOIN pg_catalog.pg_rewrite r ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND r.oid = d.objid
			LEFT JOIN pg_catalog.pg_constraint k ON d.classid = 'pg_catalog.pg_constraint'::regclass AND k.oid = d.objid
			LEFT JOIN pg_catalog.pg_attrdef a ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND a.oid = d.objid
			LEFT JOIN pg_catalog.pg_trigger g ON d.classid = 'pg_catalog.pg_trigger'::regclass AND g.oid = d.objid
			LEFT JOIN pg_catalog.pg_policy y ON d.classid = 'pg_catalog.pg_policy'::regclass AND y.oid = d.objid
		)
		SELECT DISTINCT CASE WHEN s.classid = 'pg_catalog.pg_rewrite'::regclass THEN pg_catalog.pg_describe_object('pg_catalog.pg_class'::regclass, s.part_of, 0)
			ELSE pg_catalog.pg_describe_object(s.classid, s.objid, 0) END
		FROM standing s
		WHERE NOT EXISTS (SELECT FROM inside i WHERE (i.class, i.oid) = (s.classid, s.objid) OR i.class = 'pg_catalog.pg_class'::regclass AND i.oid = s.part_of) ORDER BY 1`
)
