package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const twiceFile = `-- projection: doubled
-- version: 1
CREATE TABLE doubled (campaign_id text COLLATE "C" PRIMARY KEY, n bigint NOT NULL);
-- on: noted
INSERT INTO doubled (campaign_id, n) VALUES (event.campaign_id, twice(event.seq)) ON CONFLICT (campaign_id) DO UPDATE
	SET n = excluded.n;
`

// Functions in the schema of read models run only where the command connects as workers do.
func TestVerifyLooksAmongTheReadModelsOnlyIfToldTo(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	url := share(t, pool)
	change(t, url, `CREATE SCHEMA IF NOT EXISTS tidemark_views`)
	change(t, url, `CREATE FUNCTION tidemark_views.twice(n bigint) RETURNS bigint
		LANGUAGE sql IMMUTABLE AS 'SELECT 2 * n'`)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "doubled.sql"), []byte(twiceFile), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := sqlfile.LoadDir(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, "oak", journal.Any, event.Event{Type: "noted"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := projector.New(projector.Config{Pool: pool, Projections: files})
	if err != nil {
		t.Fatal(err)
	}
	drained(t, p)
	line := "projection verify doubled --projections-dir " + dir
	if got := execute(t, url, false, line); got.code != cli.ExitDifferences ||
		!strings.Contains(got.out, "function twice(bigint) does not exist") {
		t.Errorf("it ends with %d: %s%s", got.code, got.out, got.err)
	}
	for models, want := range map[string]struct {
		code    int
		message string
	}{
		pgtest.Empty(t): {cli.ExitUsage, "names another database"},
		"postgres://[":  {cli.ExitUsage, "TIDEMARK_MODELS_URL"},
		"host=127.0.0.1%20port=1%20connect_timeout=5": {cli.ExitUnavailable, "TIDEMARK_MODELS_URL"},
	} {
		if got := execute(t, url, false, line+" --models-url "+models); got.code != want.code || !strings.Contains(got.err, want.message) {
			t.Errorf("with the models at %s it ends with %d: %s", models, got.code, got.err)
		}
	}
	if got := execute(t, url, false, line+" --models-url "+url); got.code != cli.ExitOK {
		t.Errorf("as the workers do, it ends with %d: %s%s", got.code, got.out, got.err)
	}
}
