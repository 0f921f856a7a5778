package docstest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// querySchema lists the tables with their columns, and the sequences, of the schema tidemark with
// their comments.
const querySchema = `SELECT c.relname, c.relkind = 'S' AS sequence,
		coalesce(obj_description(c.oid, 'pg_class'), '') AS about, coalesce(a.attname, '') AS column,
		coalesce(replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone', 'timestamptz'), '') AS type,
		coalesce(NOT a.attnotnull, false) AS nullable,
		CASE WHEN a.attidentity <> '' THEN 'identity' ELSE coalesce(pg_get_expr(d.adbin, d.adrelid), '') END AS standard,
		coalesce(a.attnum = ANY (k.conkey), false) AS key, coalesce(col_description(c.oid, a.attnum), '') AS comment
	FROM pg_class c
	LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind = 'r'
	LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
	LEFT JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'p'
	WHERE c.relnamespace = 'tidemark'::regnamespace AND c.relkind IN ('r', 'S')
		AND NOT EXISTS (SELECT FROM pg_depend o WHERE o.objid = c.oid AND o.deptype = 'i')
	ORDER BY c.relkind = 'S', c.relname, a.attnum`

const schemaPage = "docs/reference/schema.md"

// repeats reports whether a comment says no more than the names of table and column.
func repeats(comment, table, column string) bool {
	names := strings.Split(table+"_"+column, "_")
	for _, word := range regexp.MustCompile(`\w+`).FindAllString(strings.ToLower(comment), -1) {
		told := slices.ContainsFunc(names, func(name string) bool {
			return word == name || len(name) >= 4 && strings.HasPrefix(word, name[:4])
		})
		if !told && !slices.Contains(strings.Fields("the a an of its this that time number name id"), word) {
			return false
		}
	}
	return true
}

// TestSchema compares the schema reference with a migrated database. Each table needs a comment, and
// so do columns whose names do not say what they are. UPDATE_GOLDEN=1 writes the page.
func TestSchema(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	for name, value := range map[string]string{
		"intervalstyle": "postgres", "datestyle": "ISO", "timezone": "UTC", "bytea_output": "hex",
		"extra_float_digits": "1", "standard_conforming_strings": "on",
	} {
		address = pgtest.With(address, name, value)
	}
	rows, err := tally.Pool(t, address, "test", 1).Query(t.Context(), querySchema)
	if err != nil {
		t.Fatal(err)
	}
	type column struct {
		Relname             string
		Sequence            bool
		About, Column, Type string
		Nullable            bool
		Standard            string
		Key                 bool
		Comment             string
	}
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Schema\n\n" +
		"All tables of the schema `tidemark`, from the comments of the migrations. **key** marks the primary key.\n" +
		"Tidemark's functions write most of these tables: change them by hand only where a page of this documentation\n" +
		"says so.\n")
	table := ""
	for _, c := range columns {
		if c.About == "" {
			t.Errorf("tidemark.%s has no comment: add COMMENT ON to its migration", c.Relname)
		}
		if c.Comment != "" && repeats(c.Comment, c.Relname, c.Column) {
			t.Errorf("the comment on tidemark.%s.%s only repeats its name, %q: drop it, or say more", c.Relname, c.Column, c.Comment)
		}
		if c.Relname != table {
			table = c.Relname
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", c.Relname, c.About)
			if c.Sequence {
				b.WriteString("\nThis is a sequence.\n")
				continue
			}
			b.WriteString("\n| column | type | default | |\n| --- | --- | --- | --- |\n")
		}
		name, kind, standard := "`"+c.Column+"`", c.Type, c.Standard
		if c.Key {
			name += " **key**"
		}
		if c.Nullable {
			kind += ", NULL"
		}
		if standard != "" {
			standard = "`" + standard + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, kind, standard, c.Comment)
	}
	file := filepath.Join(root, schemaPage)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != b.String() {
		t.Errorf("%s is not as the migrations have it: UPDATE_GOLDEN=1 go test -run TestSchema ./internal/docstest", schemaPage)
	}
}
