package docstest

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestSettings compares the tables of settings on the pages with the help of the worker.
// docs/reference/configuration.md must list every setting.
func TestSettings(t *testing.T) {
	t.Parallel()
	defaults := workerDefaults(t)
	row := regexp.MustCompile("(?m)^\\| `(TIDEMARK_[A-Z_]+)` \\| *(?:`([^`]*)`)? *\\|")
	for _, p := range pages(t) {
		listed := map[string]bool{}
		for _, m := range row.FindAllStringSubmatch(p.text, -1) {
			name, standard := m[1], m[2]
			listed[name] = true
			want, known := defaults[name]
			switch {
			case !known:
				t.Errorf("%s: %s is no setting of the worker", p.path, name)
			case standard != want:
				t.Errorf("%s: the default of %s is %q, the page says %q", p.path, name, want, standard)
			}
		}
		if p.path != "docs/reference/configuration.md" {
			continue
		}
		for name := range defaults {
			if !listed[name] {
				t.Errorf("docs/reference/configuration.md: %s is missing", name)
			}
		}
	}
}

// TestVariables finds variables in the pages' prose and snippets that no program reads.
func TestVariables(t *testing.T) {
	t.Parallel()
	known := workerDefaults(t)
	for _, name := range []string{
		"TIDEMARK_TEST_DATABASE_URL", "TIDEMARK_BENCH_DATABASE_URL", "TIDEMARK_POSTGRES_BIN",
		"TIDEMARK_MODELS_URL", "TIDEMARK_TEST_DEFAULTS",
	} {
		known[name] = ""
	}
	variable := regexp.MustCompile(`TIDEMARK_[A-Z_]+`)
	for _, p := range pages(t) {
		texts := []string{p.text}
		for _, s := range p.snippets {
			texts = append(texts, s.text)
		}
		for _, name := range variable.FindAllString(strings.Join(texts, "\n"), -1) {
			if _, ok := known[name]; !ok {
				t.Errorf("%s: nothing reads %s", p.path, name)
			}
		}
	}
}

// workerDefaults returns the defaults of the worker's settings by variable.
func workerDefaults(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), build(t, "./cmd/worker"), "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("worker --help: %v\n%s", err, out)
	}
	defaults := map[string]string{}
	setting := regexp.MustCompile(`(?m)\[(TIDEMARK_[A-Z_]+)\](?: \(default (.*)\))?$`)
	for _, m := range setting.FindAllStringSubmatch(string(out), -1) {
		defaults[m[1]] = strings.Trim(m[2], `"`)
	}
	if len(defaults) < 10 {
		t.Fatalf("found %d settings in\n%s", len(defaults), out)
	}
	return defaults
}
