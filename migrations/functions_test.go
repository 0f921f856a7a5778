package migrations_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// selectFunctions counts the functions of each name. append_limits is made by apply_limits.
const selectFunctions = `SELECT proname::text, count(*)::integer FROM pg_proc
	WHERE pronamespace = 'tidemark'::regnamespace AND proname <> 'append_limits' GROUP BY proname`

// functionFiles returns the files of migrations/functions by name.
func functionFiles(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("functions/*.sql")
	must(t, err)
	files := map[string]string{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		must(t, err)
		files[path] = string(content)
	}
	return files
}

// A file that was changed without a migration fails here, before the first release and after it.
func TestMigrationsMakeFunctionsAndTriggersAsTheirFilesDo(t *testing.T) {
	t.Parallel()
	database := pgtest.Empty(t)
	must(t, migrations.Up(t.Context(), database))
	conn := connect(t, database)
	for path, content := range functionFiles(t) {
		before := catalogue(t, database)
		if _, err := conn.Exec(t.Context(), content); err != nil {
			t.Errorf("%s does not run on a migrated database: %v", path, err)
		}
		sameCatalogue(t, "after "+path, catalogue(t, database), before)
	}
}

func TestEachFunctionStandsInOneFileUnderItsComment(t *testing.T) {
	t.Parallel()
	defined := regexp.MustCompile(`(?m)((?:^--.*\n)*)^CREATE OR REPLACE FUNCTION tidemark\.(\w+)\(`)
	definitions, home := map[string]int{}, map[string]string{}
	for path, content := range functionFiles(t) {
		for _, m := range defined.FindAllStringSubmatch(content, -1) {
			name := m[2]
			definitions[name]++
			if home[name] != "" && home[name] != path {
				t.Errorf("%s stands in %s and %s", name, home[name], path)
			}
			home[name] = path
			if !strings.HasPrefix(m[1], "-- "+name+" ") {
				t.Errorf("%s: no comment that begins with %q above the function", path, "-- "+name+" ")
			}
		}
	}
	rows, err := connect(t, pgtest.URL(t)).Query(t.Context(), selectFunctions)
	must(t, err)
	var name string
	var count int
	_, err = pgx.ForEachRow(rows, []any{&name, &count}, func() error {
		if definitions[name] != count {
			t.Errorf("files have %d of %d functions named %s", definitions[name], count, name)
		}
		delete(definitions, name)
		return nil
	})
	must(t, err)
	for name := range definitions {
		t.Errorf("%s has %s, which the schema does not", home[name], name)
	}
}

// long are functions that are called for each append or claim, and may have up to 120 lines: what a further
// call costs there, their comments say.
var long = map[string]bool{"append_if": true, "claim_around": true} //nolint:gochecknoglobals // a constant

func TestAFunctionHasAtMost80Lines(t *testing.T) {
	t.Parallel()
	defined := regexp.MustCompile(`(?m)^CREATE OR REPLACE FUNCTION tidemark\.(\w+)\(`)
	functions, left := 0, map[string]bool{}
	for path, content := range functionFiles(t) {
		for _, at := range defined.FindAllStringSubmatchIndex(content, -1) {
			name, text := content[at[2]:at[3]], content[at[0]:]
			head, _, _ := strings.Cut(text, "\n\n")
			end := ";\n" // of an expression
			if strings.Contains(head, "AS $$\n") {
				end = "\n$$;"
			} else if strings.Contains(head, "\nBEGIN ATOMIC\n") {
				end = "\nEND;"
			}
			text, _, _ = strings.Cut(text, end)
			lines, limit := strings.Count(text+end, "\n")+1, 80
			functions++
			if long[name] {
				left[name], limit = left[name] || lines > limit, 120
			}
			if lines > limit {
				t.Errorf("%s: %s has %d lines, at most %d should be", path, name, lines, limit)
			}
		}
	}
	for name := range long {
		if !left[name] {
			t.Errorf("%s is not long any more", name)
		}
	}
	if functions < 150 {
		t.Errorf("found %d functions, there were more", functions)
	}
}
