package migrations_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const (
	// selectOpenFunctions lists functions whose bodies are resolved through the caller's
	// search_path. A parsed SQL body is resolved when it is created.
	selectOpenFunctions = `SELECT p.oid::regprocedure::text FROM pg_proc p
		WHERE p.pronamespace = 'tidemark'::regnamespace AND p.prosqlbody IS NULL
		AND NOT coalesce(p.proconfig, '{}') && '{"search_path=pg_catalog, pg_temp"}'`

	enter = "-- +goose Up\nSELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), " +
		"true),\n" +
		"    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);\n"
	leave = "\nSELECT set_config('search_path', current_setting('tidemark.path'), true);\n\n-- +goose Down\n"
)

func TestFunctionsLookNamesUpInTheCatalogueAlone(t *testing.T) {
	t.Parallel()
	rows, err := connect(t, pgtest.URL(t)).Query(t.Context(), selectOpenFunctions)
	must(t, err)
	open, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	for _, name := range open {
		t.Errorf("%s needs SET search_path = pg_catalog, pg_temp, or a parsed body", name)
	}
}

func TestMigrationsLookNamesUpInTheCatalogueAlone(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(migrations.FS, "*.sql")
	must(t, err)
	for _, name := range names {
		content, err := fs.ReadFile(migrations.FS, name)
		must(t, err)
		if text := string(content); !strings.HasPrefix(text, enter) || !strings.Contains(text, leave) {
			t.Errorf("%s: its way up must begin with\n%s\nand end with\n%s", name, enter, leave)
		}
	}
}
