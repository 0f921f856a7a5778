package docstest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestWorkflowRunsEachPostgres(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, ".github/workflows/ci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Strategy struct{ Matrix struct{ Postgres []string } }
			Steps    []struct {
				Run string
				Env map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(content, &workflow); err != nil {
		t.Fatal(err)
	}
	job := workflow.Jobs["run"]
	if want := []string{"15", "16", "17", "18"}; !slices.Equal(job.Strategy.Matrix.Postgres, want) {
		t.Errorf("it runs on Postgres %v, want %v", job.Strategy.Matrix.Postgres, want)
	}
	last := job.Steps[len(job.Steps)-1]
	if last.Run != "bash .ci/run" || !strings.Contains(last.Env["TIDEMARK_POSTGRES_BIN"], "${{ matrix.postgres }}") {
		t.Errorf("the last step is %+v, want .ci/run with that Postgres", last)
	}
	var plain []string
	for name, job := range workflow.Jobs {
		for _, step := range job.Steps {
			if step.Env["TIDEMARK_TEST_DEFAULTS"] == "1" {
				plain = append(plain, name)
			}
		}
	}
	if !slices.Equal(plain, []string{"defaults"}) {
		t.Errorf("the jobs %v leave the server's settings, want one: defaults", plain)
	}
}
