package program_test

import (
	"os/exec"
	"strings"
	"testing"
)

func TestEachProgramNamesAMisspeltVariable(t *testing.T) {
	t.Parallel()
	for folder, args := range map[string][]string{
		"cmd/tidemark":    {"lag"},
		"cmd/worker":      {"--database-url", "postgres://nobody@127.0.0.1:1/none"},
		"cmd/migrate":     {"status", "--database-url", "postgres://nobody@127.0.0.1:1/none"},
		"cmd/maintenance": {"lag"},
	} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), build(t, folder), args...)
			command.Env = []string{"TIDEMARK_DATABSE_URL=x", "TIDEMARK_DATABASE_URL=postgres://nobody@127.0.0.1:1/none"}
			out, err := command.CombinedOutput()
			if err == nil {
				t.Errorf("without a database it ends well: %s", out)
			}
			for _, name := range []string{"TIDEMARK_DATABSE_URL", "TIDEMARK_DATABASE_URL"} {
				if !strings.Contains(string(out), name) {
					t.Errorf("it does not name %s:\n%s", name, out)
				}
			}
		})
	}
}
