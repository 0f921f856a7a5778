package command

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestEachExitCodeOfStatus(t *testing.T) {
	t.Parallel()
	silent := func(t *testing.T) string {
		url := fresh(t)
		change(t, url, `INSERT INTO tidemark.workers (owner, consumer_group, host, pid, started_at, seen_at, campaigns_held,
			events_applied)
			VALUES ('w', 'default', 'h', 1, now() - interval '1 hour', now() - interval '1 minute', 0, 0)`)
		return url
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T) string
		args    string
		code    int
		says    string // on stderr
	}{
		"nothing is wrong":   {fresh, "status", cli.ExitOK, ""},
		"a warning":          {silent, "status", cli.ExitWarnings, "1 warning"},
		"a warning, as JSON": {silent, "status --json", cli.ExitWarnings, "1 warning"},
		"something is critical": {
			func(t *testing.T) string { return database(t, "failed.sql") }, "status",
			cli.ExitCritical, "critical",
		},
		"no schema": {
			func(t *testing.T) string { return pgtest.Empty(t) }, "status", cli.ExitFailed,
			"tidemark migrate up",
		},
		"no schema, as JSON": {
			func(t *testing.T) string { return pgtest.Empty(t) }, "status --json", cli.ExitFailed,
			"tidemark migrate up",
		},
		"no database": {
			func(*testing.T) string { return "postgres://nobody@127.0.0.1:1/none" }, "status",
			cli.ExitUnavailable, "unavailable",
		},
		"a flag without meaning": {fresh, "status --timeout 0s", cli.ExitUsage, "--timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := execute(t, c.prepare(t), false, c.args)
			if got.code != c.code || !strings.Contains(got.err, c.says) {
				t.Errorf("exit code %d, want %d; stderr %q", got.code, c.code, got.err)
			}
			if failed := c.code != cli.ExitOK && c.code != cli.ExitWarnings &&
				c.code != cli.ExitCritical; failed != (got.out == "") {
				t.Errorf("it prints %q", got.out)
			}
			if n := strings.Count(got.err, c.says); c.says != "" && n != 1 {
				t.Errorf("it says %q %d times: %s", c.says, n, got.err)
			}
		})
	}
}
