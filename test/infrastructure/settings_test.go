package infrastructure_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/program"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// Owners of databases change settings for their own reasons. Programs set everything that they need
// themselves.
func TestProgramsWorkWhateverADatabasesSettingsAre(t *testing.T) {
	t.Parallel()
	migrate, err := program.Build(t.Context(), "cmd/migrate")
	if err != nil {
		t.Fatal(err)
	}
	worker, err := program.Build(t.Context(), "cmd/worker")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const projection = "-- projection: seen\n-- version: 1\nCREATE TABLE seen (campaign_id text, seq bigint, PRIMARY " +
		"KEY (campaign_id, seq));\n" +
		"-- on: added\nINSERT INTO seen VALUES (event.campaign_id, event.seq);\n"
	if err := os.WriteFile(filepath.Join(dir, "seen.sql"), []byte(projection), 0o600); err != nil {
		t.Fatal(err)
	}
	server := pgtest.Server(t)
	admin := tally.Pool(t, server.URL(), "test", 1)
	for i, settings := range [][]string{
		{"default_transaction_isolation = 'repeatable read'"},
		{"default_transaction_isolation = serializable", "default_transaction_deferrable = on"},
		{"search_path = ''"},
		{"search_path = nowhere", "default_transaction_isolation = serializable"},
		{
			"default_table_access_method = heap", "standard_conforming_strings = off", "DateStyle = 'German, DMY'",
			"IntervalStyle = sql_standard",
			"TimeZone = 'Pacific/Auckland'", "bytea_output = escape", "extra_float_digits = 0", "enable_indexscan = off",
		},
	} {
		name := fmt.Sprint("settings", i)
		t.Run(strings.Join(settings, ", "), func(t *testing.T) {
			tally.Exec(t, admin, "CREATE DATABASE "+name+" TEMPLATE template0")
			for _, setting := range settings {
				tally.Exec(t, admin, "ALTER DATABASE "+name+" SET "+setting)
			}
			address := database(t, server.URL(), name)
			ends(t, []*process{start(t, migrate, address)})
			w := start(t, worker, address, "TIDEMARK_PROJECTIONS_DIR="+dir, "TIDEMARK_PUBLISH_URL="+
				address+"&table=tidemark_views.sent",
				"TIDEMARK_HTTP_ADDR=127.0.0.1:0", "TIDEMARK_ADMIN_ADDR=127.0.0.1:0", "TIDEMARK_ADMIN_ANONYMOUS=viewer",
				"TIDEMARK_POLL_INTERVAL=50ms", "TIDEMARK_PUBLISH_POLL_INTERVAL=50ms")
			pool := tally.Pool(t, address, "test", 2)
			tally.Eventually(t, "the worker lives", tally.Holds(pool, `SELECT count(*) = 1 FROM tidemark.workers`))
			tally.Append(t, pool, "c", 1, 2, 3)
			for _, table := range []string{"seen", "sent"} {
				tally.Eventually(t, table+" has all events", tally.Holds(pool, `SELECT count(*) = 3 FROM tidemark_views.`+table))
			}
			if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.failure_log`); n > 0 {
				t.Errorf("%d failures", n)
			}
			if err := w.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			ends(t, []*process{w})
		})
	}
}
