package command

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func TestDoctor(t *testing.T) {
	t.Parallel()

	t.Run("names the pairs that are dead and what to type", func(t *testing.T) {
		t.Parallel()
		got := execute(t, database(t, "failed.sql"), true, "doctor")
		if !strings.Contains(got.out, "projections") ||
			!strings.Contains(got.err, "projections: tidemark failed stats --projection") {
			t.Errorf("stdout %q, stderr %q: want the finding on projections and its remedy", got.out, got.err)
		}
	})

	t.Run("ends with 1 where something does not work, and says the same as JSON", func(t *testing.T) {
		t.Parallel()
		url := fresh(t)
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(t.Context()) }()
		if _, err := conn.Exec(t.Context(), "ALTER SEQUENCE tidemark.journal_position CACHE 20"); err != nil {
			t.Fatal(err)
		}
		got := execute(t, url, false, "doctor --json")
		document := decoded[struct {
			Worst    doctor.Status
			Findings []doctor.Finding
		}](t, got.out)
		if got.code != cli.ExitFailed || document.Worst != doctor.Fail {
			t.Errorf("exit code %d, worst %s: want 1, fail", got.code, document.Worst)
		}
		for _, f := range document.Findings {
			if f.Check == "sequence" && (f.Status != doctor.Fail || f.Remedy == "") {
				t.Errorf("the sequence is %+v: want a failure with a remedy", f)
			}
		}
	})

	t.Run("lists what is well only when asked", func(t *testing.T) {
		t.Parallel()
		url := fresh(t)
		short, long := execute(t, url, false, "doctor"), execute(t, url, false, "doctor --all")
		if strings.Contains(short.out, "ok\tconnection") || !strings.Contains(long.out, "ok\tconnection") {
			t.Errorf("without --all %q, with it %q: want the connection in the second alone", short.out, long.out)
		}
	})

	t.Run("refuses switches that make no sense", func(t *testing.T) {
		t.Parallel()
		for _, args := range []string{"doctor --outbox=false --outbox-worker", "doctor --timeout 0s"} {
			if got := execute(t, "postgres://nowhere.invalid/x", false, args); got.code != cli.ExitUsage {
				t.Errorf("%s: exit code %d, stderr %q: want 2", args, got.code, got.err)
			}
		}
	})
}
