package ndjson_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/ndjson"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// hurried returns a pool whose sessions have a statement_timeout, which the server enforces.
func hurried(t *testing.T, pool *pgxpool.Pool, timeout string) *pgxpool.Pool {
	t.Helper()
	cfg := pool.Config().Copy()
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = timeout
	limited, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(limited.Close)
	return limited
}

// waitFor makes statements that insert more than so many events wait for a lock that the test holds.
func waitFor(t *testing.T, pool *pgxpool.Pool, events int) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), fmt.Sprintf(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT count(*) FROM n) > %d THEN PERFORM pg_advisory_xact_lock(1); END IF; RETURN NULL; END $$;
		CREATE TRIGGER wait AFTER INSERT ON tidemark.journal REFERENCING NEW TABLE AS n FOR EACH STATEMENT
		EXECUTE FUNCTION wait()`, events)); err != nil {
		t.Fatal(err)
	}
	holder, err := pool.Begin(t.Context())
	if err == nil {
		_, err = holder.Exec(t.Context(), `SELECT pg_advisory_xact_lock(1)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) })
}

// sameCampaign returns n lines of one campaign, which one statement inserts.
func sameCampaign(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "{\"campaign_id\":\"c\",\"type\":\"counted\",\"payload\":{\"n\":%d}}\n", i)
	}
	return text.String()
}

func TestAnImportFitsTheStatementTimeout(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	waitFor(t, pool, 6)
	var halved []int
	done := importAll(t, hurried(t, pool, "2s"), sameCampaign(40), ndjson.ImportConfig{
		Source: "s", Halved: func(lines int) { halved = append(halved, lines) },
	})
	requireImported(t, done, ndjson.Imported{Appended: 40})
	if n := len(types(t, pool, "c")); n != 40 {
		t.Errorf("the journal has %d events", n)
	}
	if len(halved) < 3 || halved[0] != 20 || halved[1] != 10 || halved[2] != 5 {
		t.Errorf("transactions were halved to %v lines", halved)
	}
	if text := exportAll(t, pool, ndjson.ExportConfig{}); strings.Count(text, "\n") != 40 {
		t.Errorf("the export is %s", text)
	}
}

func TestAnImportGrowsItsTransactionsAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `CREATE SEQUENCE public.ended;
		CREATE FUNCTION ended() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF (SELECT count(*) FROM n) > 1 AND nextval('public.ended') <= 10 THEN RAISE EXCEPTION 'as a timeout' USING ERRCODE = '57014'; END IF; RETURN NULL; END $$;
		CREATE TRIGGER ended AFTER INSERT ON tidemark.journal REFERENCING NEW TABLE AS n FOR EACH STATEMENT
		EXECUTE FUNCTION ended()`); err != nil {
		t.Fatal(err)
	}
	done := importAll(t, pool, sameCampaign(1000), ndjson.ImportConfig{Source: "s"})
	requireImported(t, done, ndjson.Imported{Appended: 1000})
	var n int64
	if err := pool.QueryRow(t.Context(), `SELECT count(DISTINCT xmin::text) FROM tidemark.journal`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n < 16 || n > 200 {
		t.Errorf("1000 lines were appended in %d transactions", n)
	}
}

func TestALineThatTheStatementTimeoutEndsIsNamed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	waitFor(t, pool, 0)
	_, err := ndjson.Import(t.Context(), hurried(t, pool, "300ms"), strings.NewReader(sameCampaign(2)), ndjson.ImportConfig{})
	bad, ok := errors.AsType[*ndjson.LineError](err)
	if !ok || bad.Number != 1 || !strings.Contains(err.Error(),
		"line 1 is not appended within the session's statement_timeout of 300ms: raise it") {
		t.Errorf("the import answers %v", err)
	}
}
