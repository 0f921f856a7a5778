package migrate

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// run runs the command and returns its output.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := NewCommand(devpg.Serve)
	cmd.PersistentFlags().Bool("dev", false, "as cli.Run adds it (default false)")
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t, args...)
	if err != nil {
		t.Fatalf("migrate %v: %v\n%s", args, err, out)
	}
	return out
}

func TestUpStatusAndDownTellWhereTheSchemaStands(t *testing.T) {
	t.Parallel()
	database := "--database-url=" + pgtest.Empty(t)
	if out := mustRun(t, "status", database); strings.Count(out, "pending") != strings.Count(out, ".sql") {
		t.Errorf("of an empty database status says:\n%s", out)
	}
	if out := mustRun(t, "up", database, "--to", "1"); !strings.HasPrefix(out, "schema at version 1, ") {
		t.Errorf("up --to 1 says %q", out)
	}
	if out := mustRun(t, "up", database); !strings.HasSuffix(out, ", 0 pending\n") {
		t.Errorf("up says %q", out)
	}
	if out := mustRun(t, "status", database); strings.Contains(out, "pending") {
		t.Errorf("after up status says:\n%s", out)
	}
	if out := mustRun(t, "down", database, "--to=1"); !strings.HasPrefix(out, "schema at version 1, ") {
		t.Errorf("down --to 1 says %q", out)
	}
}

func TestStatusSpeaksJSON(t *testing.T) {
	t.Parallel()
	var got struct {
		Version    int64
		Pending    int
		Migrations []migrations.Migration
	}
	out := mustRun(t, "status", "--json", "--database-url="+pgtest.URL(t))
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	last := got.Migrations[len(got.Migrations)-1]
	if got.Pending != 0 || got.Version != last.Version || last.AppliedAt == nil || last.Name == "" {
		t.Errorf("of a migrated database it says:\n%s", out)
	}
}

func TestDownWithoutATargetIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"down"}, {"down", "--to=-1"}} {
		if out, err := run(t, append(args, "--database-url="+pgtest.Empty(t))...); err == nil {
			t.Errorf("migrate %v succeeds: %s", args, out)
		}
	}
}

func TestSQLPrintsTheScriptOrWritesTheFiles(t *testing.T) {
	t.Parallel()
	script, err := migrations.Script(1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if out := mustRun(t, "sql", "--from=1", "--to=2"); out != script {
		t.Errorf("sql prints:\n%s", out)
	}
	dir := filepath.Join(t.TempDir(), "new", "folder")
	mustRun(t, "sql", "--dir", dir)
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		want, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what is embedded (%v)", name, err)
		}
	}
}

func TestRolesPrintsTheScriptWithItsParameters(t *testing.T) {
	t.Parallel()
	out := mustRun(t, "roles", "--prefix", "o'neil", "--schema=views", "--advisory-locks")
	for _, want := range []string{
		"SET tidemark.role_prefix = 'o''neil';", "SET tidemark.read_models = 'views';", "|| '_application'",
		"pg_try_advisory_lock",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if out := mustRun(t, "roles"); strings.Contains(out, "pg_try_advisory_lock") || strings.HasPrefix(out, "SET") {
		t.Errorf("without parameters it prints:\n%s", out)
	}
	if out, err := run(t, "roles", "--prefix", strings.Repeat("x", 52)); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("a prefix that is too long: %v %s", err, out)
	}
}

func TestHelpListsEveryFlagWithItsDefault(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"", "up", "status", "sql", "roles"} {
		args := append(strings.Fields(command), "--help")
		for line := range strings.Lines(mustRun(t, args...)) {
			isFlag := strings.HasPrefix(strings.TrimSpace(line), "-") && !strings.Contains(line, "--help")
			if isFlag && !strings.Contains(line, "default") {
				t.Errorf("migrate %v: no default in %q", args, line)
			}
		}
	}
}

func TestOnlyWithDevThePrivateServerIsUsed(t *testing.T) {
	t.Setenv("TIDEMARK_DATABASE_URL", "postgres://nobody@127.0.0.1:1/nowhere?connect_timeout=5")
	if out, err := run(t, "status"); err == nil {
		t.Errorf("the environment's database is not used: %s", out)
	}
	t.Setenv("TIDEMARK_DATABASE_URL", "")
	t.Chdir(t.TempDir())
	if out, err := run(t, "status"); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("without a database it answers %v: %s", err, out)
	}
	if out := mustRun(t, "up", "--dev"); !strings.HasSuffix(out, ", 0 pending\n") {
		t.Errorf("up says %q", out)
	}
	if out := mustRun(t, "status", "--dev"); strings.Contains(out, "pending") {
		t.Errorf("the second command found another server:\n%s", out)
	}
	if target, err := os.Readlink(filepath.Join(".tidemark", "pg")); err == nil {
		if err := os.RemoveAll(filepath.Dir(target)); err != nil {
			t.Error(err)
		}
	}
}
