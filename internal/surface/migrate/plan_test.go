package migrate

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestDryRunPrintsWhatUpWouldRun(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	database := "--database-url=" + url
	mustRun(t, "up", database, "--to=2")
	before := mustRun(t, "status", database)
	script := mustRun(t, "up", database, "--dry-run")
	if after := mustRun(t, "status", database); after != before {
		t.Errorf("a dry run has changed the schema:\n%s", after)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), script); err != nil {
		t.Fatalf("what it printed cannot be run: %v", err)
	}
	if err := migrations.Check(t.Context(), conn); err != nil {
		t.Errorf("after what it printed was run: %v", err)
	}
	if out := mustRun(t, "up", database, "--dry-run"); !strings.Contains(out, "nothing would be run") {
		t.Errorf("of a schema that is up to date it says %q", out)
	}
}

func TestDryRunPrintsWhatDownWouldUndo(t *testing.T) {
	t.Parallel()
	database := "--database-url=" + pgtest.Empty(t)
	mustRun(t, "up", database, "--to=3")
	if out := mustRun(t, "down", database, "--to=1",
		"--dry-run"); out != "would undo 00003_leases.sql\nwould undo 00002_work.sql\n" {
		t.Errorf("it prints %q", out)
	}
	if out := mustRun(t, "down", database, "--to=3", "--dry-run"); out != "nothing would be undone\n" {
		t.Errorf("it prints %q", out)
	}
	if out := mustRun(t, "status", database, "--json"); !strings.Contains(out, `"version": 3`) {
		t.Errorf("a dry run has changed the schema:\n%s", out)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	t.Run("ends when another has migrated", func(t *testing.T) {
		t.Parallel()
		url := pgtest.Empty(t)
		done := make(chan error, 1)
		go func() {
			_, err := run(t, "wait", "--database-url="+url, "--timeout=1m")
			done <- err
		}()
		mustRun(t, "up", "--database-url="+url)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("gives up in time, and says what is missing", func(t *testing.T) {
		t.Parallel()
		out, err := run(t, "wait", "--database-url="+pgtest.Empty(t), "--timeout=100ms")
		if err == nil || !strings.Contains(err.Error(), "tidemark migrate up") {
			t.Errorf("it answers %v\n%s", err, out)
		}
	})
}
