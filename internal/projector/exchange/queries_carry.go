package exchange

const (
	// parts lists what can have a comment in schemas $1 and $2, besides relations and their columns.
	parts = `parts AS (
			SELECT o.nspname, o.class, o.oid, pg_catalog.format('%s %s', o.kind, o.identity) AS what FROM others o
			UNION ALL
			SELECT s.nspname, 'pg_catalog.pg_class'::regclass, c.oid, pg_catalog.format('INDEX %I.%I', s.nspname, c.relname)
			FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
			WHERE s.nspname IN ($1, $2) AND c.relkind IN ('i', 'I')
			UNION ALL
			SELECT s.nspname, 'pg_catalog.pg_statistic_ext'::regclass, x.oid,
				pg_catalog.format('STATISTICS %I.%I', s.nspname, x.stxname)
			FROM pg_catalog.pg_statistic_ext x JOIN pg_catalog.pg_namespace s ON s.oid = x.stxnamespace
			WHERE s.nspname IN ($1, $2)
			UNION ALL
			SELECT s.nspname, 'pg_catalog.pg_constraint'::regclass, k.oid, pg_catalog.format('CONSTRAINT %I ON %s%I.%I',
				k.conname, CASE WHEN k.contypid <> 0 THEN 'DOMAIN ' END, s.nspname, coalesce(c.relname, y.typname))
			FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_namespace s ON s.oid = k.connamespace
			LEFT JOIN pg_catalog.pg_class c ON c.oid = k.conrelid LEFT JOIN pg_catalog.pg_type y ON y.oid = k.contypid
			WHERE s.nspname IN ($1, $2)
			UNION ALL
			SELECT s.nspname, p.class, p.oid, pg_catalog.format('%s %I ON %I.%I', p.kind, p.name, s.nspname, c.relname)
			FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
			JOIN (SELECT g.tgrelid, 'pg_catalog.pg_trigger'::regclass, g.oid, 'TRIGGER', g.tgname FROM pg_catalog.pg_trigger g
					WHERE NOT g.tgisinternal
				UNION ALL SELECT y.polrelid, 'pg_catalog.pg_policy'::regclass, y.oid, 'POLICY', y.polname
				FROM pg_catalog.pg_policy y) p (of, class, oid, kind, name) ON p.of = c.oid
			WHERE s.nspname IN ($1, $2)
		)`

	// queryCarry returns statements that give each table, view, sequence, type and routine in schema $2
	// the owner, grants and comments of its namesake in schema $1, and tables its policies and triggers,
	// except those in $3, which came with it. A new table gets the default privileges of schema $1.
	queryCarry = `WITH ` + others + `, ` + parts + `, twins AS (
			SELECT n.kind, n.identity, coalesce(f.proowner, y.typowner) AS owner,
				coalesce(nf.proowner, ny.typowner) AS new_owner,
				coalesce(f.proacl, y.typacl, pg_catalog.acldefault(CASE WHEN f.oid IS NULL THEN 'T' ELSE 'f' END::"char",
					coalesce(f.proowner, y.typowner))) AS acl,
				coalesce(nf.proacl, ny.typacl, pg_catalog.acldefault(CASE WHEN nf.oid IS NULL THEN 'T' ELSE 'f' END::"char",
					coalesce(nf.proowner, ny.typowner))) AS new_acl
			FROM others o JOIN others n ON n.key = o.key AND n.nspname = $2
			LEFT JOIN pg_catalog.pg_proc f ON o.class = 'pg_catalog.pg_proc'::regclass AND f.oid = o.oid
			LEFT JOIN pg_catalog.pg_proc nf ON n.class = 'pg_catalog.pg_proc'::regclass AND nf.oid = n.oid
			LEFT JOIN pg_catalog.pg_type y ON o.kind = 'TYPE' AND o.oid IN (y.oid, nullif(y.typrelid, 0))
			LEFT JOIN pg_catalog.pg_type ny ON n.kind = 'TYPE' AND n.oid IN (ny.oid, nullif(ny.typrelid, 0))
			WHERE o.nspname = $1 AND o.kind IN ('ROUTINE', 'TYPE') AND coalesce(y.typtype, 'b') <> 'm'
		), pairs AS (
			SELECT o.oid AS old, n.oid AS new, o.relname, o.relkind, o.relowner, n.relowner AS new_owner, o.relacl,
				n.relacl AS new_acl, o.relrowsecurity, o.relforcerowsecurity,
				o.reloptions, n.reloptions AS new_options, pg_catalog.format('%I.%I', $2::text, n.relname) AS target,
				CASE o.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS kind
			FROM pg_catalog.pg_class o JOIN pg_catalog.pg_namespace os ON os.oid = o.relnamespace AND os.nspname = $1
			JOIN pg_catalog.pg_class n ON n.relname = o.relname JOIN pg_catalog.pg_namespace ns ON ns.oid = n.relnamespace
				AND ns.nspname = $2
			WHERE o.relkind IN ('r', 'p', 'v', 'S') AND n.relkind IN ('r', 'p', 'v', 'S')
		), grants AS (
			SELECT p.target, p.kind, '' AS column_name, a.grantee, a.privilege_type, a.is_grantable, true AS old
			FROM pairs p CROSS JOIN LATERAL aclexplode(p.relacl) a WHERE a.grantee <> p.relowner
			UNION ALL
			SELECT p.target, p.kind, '', a.grantee, a.privilege_type, a.is_grantable, false
			FROM pairs p CROSS JOIN LATERAL aclexplode(p.new_acl) a WHERE a.grantee <> p.new_owner
			UNION ALL
			SELECT p.target, p.kind, pg_catalog.format('(%I)', c.attname), a.grantee, a.privilege_type, a.is_grantable, true
			FROM pairs p JOIN pg_catalog.pg_attribute c ON c.attrelid = p.old AND NOT c.attisdropped CROSS
				JOIN LATERAL aclexplode(c.attacl) a
			WHERE EXISTS (SELECT FROM pg_catalog.pg_attribute n WHERE n.attrelid = p.new AND n.attname = c.attname
				AND NOT n.attisdropped)
			UNION ALL
			SELECT t.identity, t.kind, '', a.grantee, a.privilege_type, a.is_grantable, true
			FROM twins t CROSS JOIN LATERAL aclexplode(t.acl) a WHERE a.grantee <> t.owner
			UNION ALL
			SELECT t.identity, t.kind, '', a.grantee, a.privilege_type, a.is_grantable, false
			FROM twins t CROSS JOIN LATERAL aclexplode(t.new_acl) a WHERE a.grantee <> t.new_owner
			UNION ALL
			SELECT pg_catalog.format('%I.%I', $2::text, n.relname),
				CASE d.defaclobjtype WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, '', a.grantee, a.privilege_type,
				a.is_grantable, true
			FROM pg_catalog.pg_default_acl d JOIN pg_catalog.pg_namespace s ON s.oid = d.defaclnamespace AND s.nspname = $1
			JOIN pg_catalog.pg_class n ON n.relowner = d.defaclrole
				AND d.defaclobjtype = CASE n.relkind WHEN 'S' THEN 'S' ELSE 'r' END::"char"
			JOIN pg_catalog.pg_namespace ns ON ns.oid = n.relnamespace AND ns.nspname = $2
			CROSS JOIN LATERAL aclexplode(d.defaclacl) a
			WHERE n.relkind IN ('r', 'p', 'v', 'S') AND a.grantee <> n.relowner
				AND NOT EXISTS (SELECT FROM pairs p WHERE p.new = n.oid)
		), changes AS (
			SELECT g.target, g.kind, g.column_name, g.grantee, g.privilege_type, bool_or(g.is_grantable) AS is_grantable,
				bool_or(g.old) AS old
			FROM grants g GROUP BY 1, 2, 3, 4, 5 HAVING bool_or(g.old) <> bool_or(NOT g.old)
				OR bool_or(g.old AND g.is_grantable) AND NOT bool_or(NOT g.old AND g.is_grantable)
		), named AS (
			SELECT c.*, CASE c.grantee WHEN 0 THEN 'PUBLIC'
				ELSE (SELECT pg_catalog.format('%I', r.rolname) FROM pg_catalog.pg_roles r WHERE r.oid = c.grantee) END AS who,
				pg_catalog.format('%s%s ON %s %s', c.privilege_type, c.column_name, CASE c.kind WHEN 'VIEW' THEN 'TABLE'
					ELSE c.kind END, c.target) AS what
			FROM changes c
		)
		SELECT s.sql FROM (
			SELECT 1, CASE WHEN n.old THEN pg_catalog.format('GRANT %s TO %s%s', n.what, n.who, CASE
				WHEN n.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
				ELSE pg_catalog.format('REVOKE %s FROM %s', n.what, n.who) END
			FROM named n
			UNION ALL
			SELECT 2, pg_catalog.format('COMMENT ON %s %s IS %L', p.kind, p.target,
				pg_catalog.obj_description(p.old, 'pg_class')) FROM pairs p
			WHERE pg_catalog.obj_description(p.old, 'pg_class') IS NOT NULL
				AND pg_catalog.obj_description(p.new, 'pg_class') IS NULL
			UNION ALL
			SELECT 2, pg_catalog.format('COMMENT ON COLUMN %s.%I IS %L', p.target, n.attname,
				pg_catalog.col_description(p.old, c.attnum))
			FROM pairs p JOIN pg_catalog.pg_attribute c ON c.attrelid = p.old AND c.attnum > 0 AND NOT c.attisdropped
			JOIN pg_catalog.pg_attribute n ON n.attrelid = p.new AND n.attname = c.attname
			WHERE p.kind <> 'SEQUENCE' AND pg_catalog.col_description(p.old, c.attnum) IS NOT NULL
				AND pg_catalog.col_description(p.new, n.attnum) IS NULL
			UNION ALL
			SELECT 2, pg_catalog.format('COMMENT ON %s IS %L', n.what,
				pg_catalog.obj_description(o.oid, o.class::regclass::name))
			FROM parts n JOIN parts o ON o.nspname = $1
				AND replace(o.what, pg_catalog.quote_ident($1) || '.', '') = replace(n.what, pg_catalog.quote_ident($2) || '.', '')
			WHERE n.nspname = $2 AND pg_catalog.obj_description(o.oid, o.class::regclass::name) IS NOT NULL
				AND pg_catalog.obj_description(n.oid, n.class::regclass::name) IS NULL
			UNION ALL
			SELECT 2, pg_catalog.format('ALTER VIEW %s SET (%s)', p.target, o.option) FROM pairs p CROSS
				JOIN LATERAL unnest(p.reloptions) o (option)
			WHERE p.kind = 'VIEW' AND split_part(o.option, '=', 1) <> ALL (SELECT split_part(x.option, '=', 1)
				FROM unnest(p.new_options) x (option))
			UNION ALL
			SELECT 3, pg_catalog.format('CREATE POLICY %I ON %s AS %s FOR %s TO %s%s%s', y.polname, p.target, CASE
				WHEN y.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
				CASE y.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE'
					ELSE 'ALL' END,
				(SELECT string_agg(CASE r.id WHEN 0 THEN 'PUBLIC'
					ELSE (SELECT pg_catalog.format('%I', a.rolname) FROM pg_catalog.pg_roles a WHERE a.oid = r.id) END, ', ')
					FROM unnest(y.polroles) r (id)),
				' USING (' || pg_catalog.pg_get_expr(y.polqual, y.polrelid) || ')',
					' WITH CHECK (' || pg_catalog.pg_get_expr(y.polwithcheck, y.polrelid) || ')')
			FROM pairs p JOIN pg_catalog.pg_policy y ON y.polrelid = p.old
			WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_policy z WHERE z.polrelid = p.new AND z.polname = y.polname)
				AND pg_catalog.format('policy %s.%s', p.relname, y.polname) <> ALL ($3::text[])
			UNION ALL
			SELECT 4, pg_catalog.format('ALTER TABLE %s %s ROW LEVEL SECURITY', p.target, x.verb)
			FROM pairs p CROSS JOIN LATERAL (VALUES ('ENABLE', p.relrowsecurity), ('FORCE', p.relforcerowsecurity)) x (verb,
				wanted) WHERE x.wanted AND p.kind = 'TABLE'
			UNION ALL
			SELECT 5, replace(pg_catalog.pg_get_triggerdef(g.oid), pg_catalog.format(' ON %I.%I ', $1::text, p.relname),
				pg_catalog.format(' ON %s ', p.target))
			FROM pairs p JOIN pg_catalog.pg_trigger g ON g.tgrelid = p.old AND NOT g.tgisinternal AND g.tgparentid = 0
			WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger h WHERE h.tgrelid = p.new AND h.tgname = g.tgname)
				AND pg_catalog.format('trigger %s.%s', p.relname, g.tgname) <> ALL ($3::text[])
			UNION ALL
			SELECT 7, pg_catalog.format('ALTER %s %s OWNER TO %I', p.kind, p.target,
				(SELECT r.rolname FROM pg_catalog.pg_roles r WHERE r.oid = p.relowner)) FROM pairs p
			WHERE p.relowner <> p.new_owner AND NOT (p.relkind = 'S'
				AND EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.objid = p.new AND d.deptype IN ('a', 'i')
				AND d.refobjsubid > 0))
			UNION ALL
			SELECT 7, pg_catalog.format('ALTER %s %s OWNER TO %s', t.kind, t.identity, t.owner::regrole) FROM twins t
			WHERE t.owner <> t.new_owner
		) s (ord, sql)
		ORDER BY s.ord, s.sql`
)
