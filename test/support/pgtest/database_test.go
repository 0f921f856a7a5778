package pgtest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// has reports whether the connection's database has a table, or its server a database, with that
// name.
func has(t *testing.T, conn *pgx.Conn, catalogue, name string) (there bool) {
	t.Helper()
	statements := map[string]string{
		"table":    "SELECT EXISTS (SELECT FROM pg_class WHERE relname = $1 AND relkind = 'r')",
		"database": "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)",
	}
	if err := conn.QueryRow(t.Context(), statements[catalogue], name).Scan(&there); err != nil {
		t.Fatal(err)
	}
	return there
}

func TestEachDatabaseIsTheTestsOwn(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE only_here ()"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url              string
		onlyHere, schema bool
	}{
		"of New itself":  {pool.Config().ConnString(), true, true},
		"of another URL": {pgtest.URL(t), false, true},
		"of Empty":       {pgtest.Empty(t), false, false},
	} {
		conn := connect(t, c.url)
		if got := has(t, conn, "table", "only_here"); got != c.onlyHere {
			t.Errorf("the database %s has the table that New's test made: %t", name, got)
		}
		if got := has(t, conn, "table", "journal"); got != c.schema {
			t.Errorf("the database %s has the journal: %t", name, got)
		}
	}
}

func TestACopyHasWhatTheOtherHadAndIsItsOwn(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), "CREATE TABLE before ()"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pgtest.Copy(t, url).Exec(t.Context(), "DROP TABLE before; CREATE TABLE after ()"); err != nil {
		t.Fatal(err)
	}
	conn = connect(t, url)
	if !has(t, conn, "table", "before") || has(t, conn, "table", "after") {
		t.Error("what is done in a copy is done in what it was made of")
	}
}

func TestADatabaseGoesWithItsTestEvenWhenASessionIsLeft(t *testing.T) {
	t.Parallel()
	watcher := connect(t, pgtest.Empty(t))
	var name string
	t.Run("the test that leaves a session", func(t *testing.T) {
		url := pgtest.URL(t)
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		name = conn.Config().Database
		if !has(t, watcher, "database", name) {
			t.Errorf("there is no database %s", name)
		}
	})
	if has(t, watcher, "database", name) {
		t.Errorf("the database %s outlives its test", name)
	}
}

func TestAServerOfATestsOwnCanBeStoppedAndStarted(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	if got := connect(t, server.URL()).Config().Port; got == connect(t, pgtest.Empty(t)).Config().Port {
		t.Fatal("the private server is the shared one")
	}
	if err := server.Restart(t.Context(), devpg.Immediate); err != nil {
		t.Fatal(err)
	}
	connect(t, server.URL())
}

func TestAMissingServerFailsTheTestAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestEachDatabaseIsTheTestsOwn$", "-test.v")
	cmd.Env = append(os.Environ(), "TIDEMARK_TEST_DATABASE_URL=postgres://nobody@127.0.0.1:1/nowhere")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL") ||
		!strings.Contains(string(out), "TIDEMARK_TEST_DATABASE_URL") {
		t.Errorf("without a server the run answers %v:\n%s", err, out)
	}
}

func TestTheServerThatTheEnvironmentNamesIsUsed(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^(TestEachDatabaseIsTheTestsOwn|TestADatabaseGoesWith.*)$")
	cmd.Env = append(os.Environ(), "TIDEMARK_TEST_DATABASE_URL="+server.URL())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the tests on another server answer %v:\n%s", err, out)
	}
	var templates int
	const count = "SELECT count(*) FROM pg_database WHERE datname LIKE 'tidemark_template_%'"
	if err := connect(t, server.URL()).QueryRow(t.Context(), count).Scan(&templates); err != nil {
		t.Fatal(err)
	}
	if templates != 1 {
		t.Errorf("the named server has %d templates, want 1", templates)
	}
}
