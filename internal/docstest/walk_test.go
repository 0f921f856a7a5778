package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestWalks checks that the files and functions of the walks in docs/explanation/architecture.md
// exist. No walk may have more than ten steps.
func TestWalks(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, "docs/explanation/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	steps := regexp.MustCompile("(?m)^\\| (\\d+) \\| .* \\| `([^`]+)` \\| `([^`]+)` \\|$").FindAllSubmatch(content, -1)
	if len(steps) < 10 {
		t.Fatalf("found %d steps", len(steps))
	}
	for _, step := range steps {
		n, path, name := string(step[1]), string(step[2]), string(step[3])
		if len(n) > 1 && n != "10" {
			t.Errorf("step %s of a walk: ten are enough", n)
		}
		source, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Errorf("step %s: %v", n, err)
			continue
		}
		defined := `(?m)^func (\(\w+ \*?\w+\) )?` + regexp.QuoteMeta(name) + `[\[(]`
		if filepath.Ext(path) == ".sql" {
			defined = `(?m)^CREATE OR REPLACE FUNCTION ` + regexp.QuoteMeta(name) + `\(`
		}
		if !regexp.MustCompile(defined).Match(source) {
			t.Errorf("step %s: %s does not define %s", n, path, name)
		}
	}
}
