package lake_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/adapters/lake"
)

// duckdb runs the statements of its standard input, and prints the last one's rows as JSON.
const duckdb = `
const { DuckDBInstance } = require("@duckdb/node-api");
(async () => {
  const connection = await (await DuckDBInstance.create()).connect();
  let last;
  for (const sql of JSON.parse(require("fs").readFileSync(0))) last = await connection.runAndReadAll(sql);
  console.log(JSON.stringify(last.getRowObjectsJson()));
})().catch((e) => { console.error(String(e)); process.exit(1); });`

// query returns the rows of the last statement. Without node it logs that and returns nil. Node
// without DuckDB fails the test in CI only.
func query(t *testing.T, statements ...string) (rows []map[string]any) {
	t.Helper()
	drivers, err := filepath.Abs("../../.tidemark/duckdb/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(statements)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Log("NOT RUN: there is no node here")
		return nil
	}
	if _, err := os.Stat(filepath.Join(drivers, "@duckdb")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("node is here without DuckDB: scripts/need.sh duckdb installs it")
		}
		t.Log("NOT RUN: node is here without DuckDB; scripts/need.sh duckdb installs it")
		return nil
	}
	cmd := exec.CommandContext(t.Context(), "node", "-e", duckdb)
	cmd.Env = append(cmd.Environ(), "NODE_PATH="+drivers)
	cmd.Stdin = strings.NewReader(string(in))
	var problem strings.Builder
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("DuckDB: %v\n%s", err, problem.String())
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return rows
}

// documented returns the statements of the page's snippets for DuckDB, for another folder, columns and an order.
func documented(t *testing.T, root, columns, order string) (snippets [][]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/sinks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rest := range strings.Split(string(page), "\n```sql duckdb\n")[1:] {
		script, _, _ := strings.Cut(rest, ";\n```")
		script = strings.ReplaceAll(script, "/data/events", strings.ReplaceAll(root, "'", "''"))
		script = strings.Replace(script, "SELECT * ", columns, 1) + order
		snippets = append(snippets, strings.Split(script, ";\n"))
	}
	return snippets
}

func TestDuckDBReadsTheFolder(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "it's %20")
	mkdir(t, root)
	all := events(0, 30)
	for i, name := range strange() {
		all[i].Type = name
	}
	all[0].Tags = []string{"a", "b=1"}
	all[0].Actor = "anna"
	sink := open(t, lake.Config{Path: root})
	for batch := range slices.Chunk(all, 10) {
		publish(t, sink, batch)
	}
	columns := `SELECT day::text AS day, type, campaign_id, seq, position, event_id, version, intent, actor, tags, payload ->> 'n' AS n,
		occurred_at::timestamp::text AS occurred_at, typeof(recorded_at) AS t `
	snippets := documented(t, root, columns, " ORDER BY position")
	if len(snippets) != 2 {
		t.Fatalf("the page has %d snippets for DuckDB, want 2", len(snippets))
	}
	for how, statements := range snippets {
		rows := query(t, statements...)
		if rows == nil {
			return
		}
		if len(rows) != len(all) {
			t.Fatalf("snippet %d: %d rows, want %d", how, len(rows), len(all))
		}
		for i, e := range all {
			r := rows[i]
			if r["type"] != e.Type || r["day"] != e.RecordedAt.UTC().Format("2006-01-02") || r["event_id"] != e.ID.String() ||
				r["campaign_id"] != e.CampaignID || r["t"] != "TIMESTAMP WITH TIME ZONE" ||
				r["occurred_at"] != e.OccurredAt.UTC().Format("2006-01-02 15:04:05.999999") {
				t.Errorf("snippet %d: event %q of %s has come back as %v", how, e.Type, e.RecordedAt.UTC(), r)
			}
		}
		if tags, _ := rows[0]["tags"].([]any); len(tags) != 2 || tags[1] != "b=1" || rows[0]["actor"] != "anna" ||
			rows[1]["actor"] != nil || rows[0]["n"] != "1" {
			t.Errorf("snippet %d: the first rows are %v, %v", how, rows[0], rows[1])
		}
	}
}
