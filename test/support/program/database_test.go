package program_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestNoProgramStartsAPostgresThatNobodyAskedFor runs programs whose database is not named, and with
// --dev beside one that is.
func TestNoProgramStartsAPostgresThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	const usage, failed = 2, 1
	for _, c := range []struct {
		folder, args string
		code         int
	}{
		{"cmd/tidemark", "worker --publish-url log:", usage},
		{"cmd/tidemark", "migrate up", usage},
		{"cmd/tidemark", "migrate wait", usage},
		{"cmd/tidemark", "migrate status", usage},
		{"cmd/tidemark", "migrate down --to 0", usage},
		{"cmd/tidemark", "lag", usage},
		{"cmd/tidemark", "status", usage},
		{"cmd/tidemark", "doctor", usage},
		{"cmd/tidemark", "events export", usage},
		{"cmd/tidemark", "demo worker", usage},
		{"cmd/worker", "--publish-url log:", usage},
		{"cmd/migrate", "up", usage},
		{"cmd/maintenance", "lag", usage},
		{"cmd/maintenance", "-outbox-report", usage},
		{"examples/tabletop/cmd/loadgen", "-seconds 1", failed},
		{"examples/githistory", "", failed},
		{"test/dcbhttp", "", failed},
	} {
		t.Run(c.folder+" "+c.args, func(t *testing.T) {
			t.Parallel()
			path := build(t, c.folder)
			for name, run := range map[string]struct {
				env  string
				args []string
				want []string
			}{
				"no URL": {"", strings.Fields(c.args), []string{"TIDEMARK_DATABASE_URL is not set", "--dev"}},
				"both": {
					"postgres://nobody@127.0.0.1:1/none", append(strings.Fields(c.args), "--dev"), []string{"--dev starts"},
				},
				"white space": {" \n", strings.Fields(c.args), []string{"TIDEMARK_DATABASE_URL is not set", "--dev"}},
			} {
				command := exec.CommandContext(t.Context(), path, run.args...)
				command.Dir = t.TempDir()
				command.Env = []string{"HOME=" + command.Dir, "TIDEMARK_DATABASE_URL=" + run.env}
				out, _ := command.CombinedOutput()
				if code := command.ProcessState.ExitCode(); code != c.code {
					t.Errorf("%s: it ends with %d, want %d: %s", name, code, c.code, out)
				}
				for _, want := range run.want {
					if !strings.Contains(string(out), want) {
						t.Errorf("%s: it does not say %q: %s", name, want, out)
					}
				}
				if left, err := os.ReadDir(command.Dir); err != nil || len(left) > 0 {
					t.Errorf("%s: it leaves %v (%v)", name, left, err)
				}
			}
		})
	}
}
