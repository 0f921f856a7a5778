package migrations_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// gooseTool builds the goose command at the version in go.mod, with the Postgres driver only.
func gooseTool(t *testing.T) string {
	t.Helper()
	module, err := os.ReadFile("../go.mod")
	must(t, err)
	version := regexp.MustCompile(`github\.com/pressly/goose/v3 (v\S+)`).FindSubmatch(module)
	if version == nil {
		t.Fatal("go.mod does not name goose")
	}
	into := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "install",
		"-tags=no_clickhouse no_libsql no_mssql no_mysql no_sqlite3 no_vertica no_ydb",
		"github.com/pressly/goose/v3/cmd/goose@"+string(version[1]))
	cmd.Env = append(os.Environ(), "GOBIN="+into, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build goose: %v\n%s", err, out)
	}
	return filepath.Join(into, "goose")
}

func TestTheGooseToolAppliesTheFilesAsTheyAre(t *testing.T) {
	t.Parallel()
	tool, byTool, byUp := gooseTool(t), pgtest.Empty(t), pgtest.Empty(t)
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), tool,
			append([]string{"-dir", ".", "postgres", byTool}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("goose %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	must(t, migrations.Up(t.Context(), byUp))
	want := catalogue(t, byUp)
	run("up")
	sameCatalogue(t, "made by the tool", catalogue(t, byTool), want)
	must(t, migrations.Check(t.Context(), connect(t, byTool)))
	if out := run("status"); strings.Contains(out, "Pending") || strings.Count(out, ".sql") != len(status(t, byUp)) {
		t.Errorf("goose status says\n%s", out)
	}
	run("down-to", "0")
	for _, line := range catalogue(t, byTool) {
		if strings.Contains(line, "tidemark") {
			t.Errorf("after the way down there is still: %s", line)
		}
	}
	run("up")
	sameCatalogue(t, "after up, down, up", catalogue(t, byTool), want)
	run("redo")
	sameCatalogue(t, "after redo", catalogue(t, byTool), want)
	must(t, migrations.Up(t.Context(), byTool)) // each continues where the other stopped
}
