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

	// selectCompiled lists functions whose plans Postgres may compile: a scan that is forbidden and yet the
	// only way, as of a sequence, seems to cost much, and so does each function in a statement of an erasure or
	// archive. Compiling takes 50 ms and more. The functions left out
	// run for each append and save the setting: TestHotStatementsCostTheSameHoweverMuchThereIs shows that
	// their plans are cheap.
	selectCompiled = `SELECT p.oid::regprocedure::text FROM pg_proc p
		WHERE p.pronamespace = 'tidemark'::regnamespace AND (p.proconfig && '{enable_seqscan=off}'
			OR p.prosecdef AND p.proname ~ 'eras|keep_subjects|forget_|rewrap|^(archive|restore|put_back)$'
				AND p.prorettype <> 'trigger'::regtype AND p.proname !~ '^(erased_form|(hold|release)_erasure|count_erased|erasure_key)$')
		AND NOT p.proconfig && '{jit=off}' AND p.proname !~ '^(append|append_at|append_rows|lock_untagged|require_fresh_snapshot)$'`

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

func TestFunctionsThatForbidScansAreNotCompiled(t *testing.T) {
	t.Parallel()
	rows, err := connect(t, pgtest.URL(t)).Query(t.Context(), selectCompiled)
	must(t, err)
	compiled, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	for _, name := range compiled {
		t.Errorf("%s needs SET jit = off", name)
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
