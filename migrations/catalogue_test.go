package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// selectCatalogue describes everything that a migration can create, one line each, without object
// ids and places.
const selectCatalogue = `
SELECT format('schema %I', nspname) AS line FROM pg_namespace WHERE nspname !~ '^pg_'
	AND nspname <> 'information_schema'
UNION ALL
SELECT format('%s %s %s %s options %s column %I %s null %s default %s %s', c.relkind, c.relpersistence, n.nspname,
	c.relname, c.reloptions,
    a.attname, format_type(a.atttypid, a.atttypmod) || coalesce(' ' || co.collname, ''), NOT a.attnotnull,
    	pg_get_expr(d.adbin, d.adrelid),
    concat(a.attgenerated, a.attidentity, a.attstorage, a.attcompression))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
	AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum LEFT
    	JOIN pg_collation co ON co.oid = a.attcollation
WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
UNION ALL
SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
	JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
UNION ALL
SELECT format('constraint %s %s on %s: %s', o.contype, o.conname, o.conrelid::regclass, pg_get_constraintdef(o.oid))
FROM pg_constraint o JOIN pg_namespace n ON n.oid = o.connamespace WHERE n.nspname !~ '^pg_'
	AND n.nspname <> 'information_schema'
UNION ALL
SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t WHERE NOT t.tgisinternal
UNION ALL
SELECT CASE p.prokind WHEN 'a' THEN format('aggregate %s', p.oid::regprocedure) ELSE pg_get_functiondef(p.oid) END
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname !~ '^pg_'
	AND n.nspname <> 'information_schema'
UNION ALL
SELECT format('type %s %s %s: %s', t.typtype, n.nspname, t.typname,
	(SELECT string_agg(enumlabel, ',' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid))
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND t.typtype IN ('e', 'd', 'c', 'r')
	AND t.typname !~ '^_'
UNION ALL
SELECT format('sequence %I.%I %s start %s min %s max %s by %s cache %s cycle %s', schemaname, sequencename, data_type,
	start_value, min_value, max_value,
    increment_by, cache_size, cycle) FROM pg_sequences
UNION ALL
SELECT format('view %I.%I %s', schemaname, viewname, definition) FROM pg_views WHERE schemaname !~ '^pg_'
	AND schemaname <> 'information_schema'
UNION ALL
SELECT format('comment %s %s: %s', d.classoid::regclass, pg_describe_object(d.classoid, d.objoid, d.objsubid),
	d.description)
FROM pg_description d WHERE d.objoid >= 16384
UNION ALL
SELECT format('extension %s', extname) FROM pg_extension
UNION ALL
SELECT format('access %s %s %s', n.nspname, c.relname, c.relacl) FROM pg_class c
	JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relacl IS NOT NULL AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
UNION ALL
SELECT format('access %s %s', p.oid::regprocedure, p.proacl) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.proacl IS NOT NULL AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'`

func catalogue(t *testing.T, url string) []string {
	t.Helper()
	conn := connect(t, url)
	rows, err := conn.Query(t.Context(), selectCatalogue)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// sameCatalogue reports the lines that only one of got and want has.
func sameCatalogue(t *testing.T, when string, got, want []string) {
	t.Helper()
	count := map[string]int{}
	for _, line := range got {
		count[line]++
	}
	for _, line := range want {
		count[line]--
	}
	var differ strings.Builder
	for line, n := range count {
		switch {
		case n > 0:
			differ.WriteString("\n+ " + line)
		case n < 0:
			differ.WriteString("\n- " + line)
		}
	}
	if differ.Len() > 0 {
		t.Errorf("%s the catalogue differs:%s", when, differ.String())
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.UTF8(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}
