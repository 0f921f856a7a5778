package pgbouncer_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/program"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// Letters of LATIN1 and letters beyond it.
const foreign = "Zoë-日本"

// The owner of a database, or of a role, may have set any client_encoding. Programs pin theirs.
func TestProgramsKeepTextWhateverTheDatabasesClientEncodingIs(t *testing.T) {
	t.Parallel()
	tidemark, err := program.Build(t.Context(), "cmd/tidemark")
	if err != nil {
		t.Fatal(err)
	}
	worker, err := program.Build(t.Context(), "cmd/worker")
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"direct", "bounced"} {
		for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
			t.Run(way+"_"+encoding, func(t *testing.T) {
				t.Parallel()
				pool := pgtest.New(t)
				tally.Exec(t, pool, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET client_encoding = `+encoding+`',
					current_database()); END $$`)
				direct := pool.Config().ConnString()
				right := tally.Pool(t, pgtest.With(direct, "client_encoding", "UTF8"), "test", 2)
				address := direct
				if way == "bounced" {
					address = startBouncer(t, pool, "cache_describe")
				}
				run := func(url string, args ...string) (out, told string, err error) {
					t.Helper()
					cmd := exec.CommandContext(t.Context(), tidemark, args...)
					cmd.Env = append(os.Environ(), "TIDEMARK_DATABASE_URL="+url)
					var stdout, stderr bytes.Buffer
					cmd.Stdout, cmd.Stderr = &stdout, &stderr
					err = cmd.Run()
					return stdout.String(), stderr.String(), err
				}
				must := func(url string, args ...string) string {
					t.Helper()
					out, told, err := run(url, args...)
					if err != nil {
						t.Fatalf("%v: %v: %s", args, err, told)
					}
					return out
				}
				must(direct, "migrate", "up")
				must(direct, "migrate", "status")

				dir := t.TempDir()
				file := filepath.Join(dir, "events")
				line := `{"campaign_id":"` + foreign + `","type":"noted","tags":["` + foreign + `"],"payload":{"n":"` + foreign +
					`"},"actor":"` + foreign + `"}`
				if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				must(address, "events", "import", file)
				if n := tally.Value[int](t, right, `SELECT count(*) FROM tidemark.journal WHERE campaign_id = $1
					AND tags = ARRAY[$1] AND payload ->> 'n' = $1 AND actor = $1`, foreign); n != 1 {
					t.Errorf("the import has stored another event: %s", tally.Value[string](t, right,
						`SELECT j::text FROM tidemark.journal j`))
				}
				for _, args := range [][]string{{"events", "export"}, {"events", "query", "--type", "noted", "--json"}} {
					if out := must(address, args...); !strings.Contains(out, foreign) || strings.Contains(out, `\ufffd`) {
						t.Errorf("%v: %s", args, out)
					}
				}

				projection := "-- projection: seen\n-- version: 1\nCREATE TABLE seen (campaign_id text, name text, PRIMARY KEY " +
					"(campaign_id, name));\n-- on: noted\nINSERT INTO seen VALUES (event.campaign_id, '" + foreign + "');\n"
				projections := filepath.Join(dir, "projections")
				if err := os.Mkdir(projections, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(projections, "seen.sql"), []byte(projection), 0o600); err != nil {
					t.Fatal(err)
				}
				w := exec.CommandContext(t.Context(), worker)
				var log bytes.Buffer
				w.Stdout, w.Stderr = &log, &log
				w.Env = append(os.Environ(), "TIDEMARK_DATABASE_URL="+address, "TIDEMARK_PROJECTIONS_DIR="+projections,
					"TIDEMARK_PUBLISH_URL="+pgtest.With(direct, "table", "tidemark_views.sent"), "TIDEMARK_HTTP_ADDR=off",
					"TIDEMARK_POLL_INTERVAL=50ms", "TIDEMARK_PUBLISH_POLL_INTERVAL=50ms")
				if err := w.Start(); err != nil {
					t.Fatal(err)
				}
				tally.Eventually(t, "the row is there", tally.Holds(right, `SELECT count(*) = 1 FROM tidemark_views.seen
					WHERE campaign_id = $1 AND name = $1`, foreign))
				tally.Eventually(t, "the event is published", tally.Holds(right, `SELECT count(*) = 1 FROM tidemark_views.sent
					WHERE campaign_id = $1`, foreign))
				if out := must(address, "campaign", "show", foreign); !strings.Contains(out, foreign) {
					t.Errorf("campaign show: %s", out)
				}
				must(address, "projection", "verify", "seen", "--all", "--projections-dir", projections)
				if out, _, err := run(address, "doctor"); err == nil || !strings.Contains(strings.ToUpper(out), "CLIENT_ENCODING="+encoding) {
					t.Errorf("doctor: %v: %s", err, out)
				}
				if err := w.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				if err := w.Wait(); err != nil || strings.Contains(log.String(), "WARN") && way == "direct" {
					t.Errorf("%v: %s", err, &log)
				}
				if n := tally.Value[int](t, right, `SELECT count(*) FROM tidemark.failure_log`); n > 0 {
					t.Errorf("%d failures", n)
				}
			})
		}
	}
}
