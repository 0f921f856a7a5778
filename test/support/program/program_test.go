package program_test

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/program"
)

func TestAProgramIsBuiltOnceAndKept(t *testing.T) {
	t.Parallel()
	var paths [4]string
	var builders sync.WaitGroup
	for i := range paths {
		builders.Go(func() {
			path, err := program.Build(t.Context(), "cmd/migrate")
			if err != nil {
				t.Error(err)
			}
			paths[i] = path
		})
	}
	builders.Wait()
	first, err := os.Stat(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.Build(t.Context(), "cmd/migrate"); err != nil {
		t.Fatal(err)
	}
	if again, err := os.Stat(paths[3]); err != nil || !os.SameFile(first, again) {
		t.Errorf("built again without a change: %v, %v", again, err)
	}
	if out, err := exec.CommandContext(t.Context(), paths[0], "--help").CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "migrate") {
		t.Errorf("the program answers %v:\n%s", err, out)
	}
}

func TestWhatDoesNotBuildIsNamed(t *testing.T) {
	t.Parallel()
	if _, err := program.Build(t.Context(), "cmd/nothing"); err == nil ||
		!strings.Contains(err.Error(), "build cmd/nothing: ") {
		t.Errorf("Build = %v", err)
	}
}
