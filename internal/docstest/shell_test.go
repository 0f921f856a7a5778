package docstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/program"
)

// TestShellSnippets checks each line of the pages' shell snippets. Make targets must exist, and our
// programs must succeed on a migrated database. A program that runs forever or starts its own
// Postgres must only exist.
func TestShellSnippets(t *testing.T) {
	t.Parallel()
	seen, programs := map[string]bool{}, map[string]string{}
	for _, p := range pages(t) {
		for _, s := range p.in("sh") {
			for i, line := range strings.Split(strings.TrimSpace(s.text), "\n") {
				if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") || seen[line] {
					continue
				}
				seen[line] = true
				if mistake := checkLine(t, programs, withoutVariables(strings.Fields(line))); mistake != "" {
					t.Errorf("%s:%d: %s: %s", p.path, s.line+1+i, line, mistake)
				}
			}
		}
	}
}

// withoutVariables removes the assignments before a command.
func withoutVariables(words []string) []string {
	assignment := regexp.MustCompile(`^[A-Z_]+=`)
	return words[slices.IndexFunc(words, func(w string) bool { return !assignment.MatchString(w) }):]
}

// checkLine checks a command. programs holds what earlier lines have compiled.
func checkLine(t *testing.T, programs map[string]string, words []string) (mistake string) {
	t.Helper()
	switch {
	case words[0] == "make":
		return checkTargets(t, withoutVariables(words[1:]))
	case len(words) > 2 && words[0] == "go" && words[1] == "run":
		return checkProgram(t, programs, words[2], words[3:])
	case words[0] == "tidemark":
		return checkProgram(t, programs, "./cmd/tidemark", words[1:])
	case words[0] == "go" && (words[1] == "get" || words[1] == "install"):
		return checkInstalls(t, words)
	case strings.HasPrefix(words[0], "scripts/"):
		if _, err := os.Stat(filepath.Join(root, words[0])); err != nil {
			return err.Error()
		}
		return ""
	case words[0] == "curl": // TestAdminCalls makes these calls
		return ""
	case words[0] == "docker", words[0] == "git":
		return ""
	}
	return "nothing checks this command; see doc.go"
}

// checkInstalls returns a mistake unless TestTutorial, which needs no network, runs the command.
func checkInstalls(t *testing.T, words []string) string {
	t.Helper()
	tutorial, err := os.ReadFile(filepath.Join(root, "docs/tutorial/first-worker.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(tutorial), "\n"+strings.Join(words, " ")+"\n") {
		return "docs/tutorial/first-worker.md does not have this command"
	}
	return ""
}

func checkTargets(t *testing.T, targets []string) string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:.*## `).Match(makefile) {
			return "make help does not list " + target
		}
	}
	return ""
}

func checkProgram(t *testing.T, programs map[string]string, pkg string, args []string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, pkg, "main.go")); err != nil {
		return err.Error()
	}
	if pkg == "./cmd/tidemark" && slices.Contains([]string{"worker", "demo"}, args[0]) {
		return ""
	}
	if programs[pkg] == "" {
		programs[pkg] = build(t, pkg)
	}
	// The test's database stands for the private Postgres.
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--dev" })
	cmd := exec.CommandContext(t.Context(), programs[pkg], args...)
	url := pgtest.URL(t)
	if strings.HasPrefix(pkg, "./examples/") { // programs of users, whose own pools must have UTF8
		url = pgtest.UTF8(url)
	}
	cmd.Env = append(os.Environ(), "TIDEMARK_DATABASE_URL="+url)
	if out, err := cmd.CombinedOutput(); err != nil {
		return err.Error() + "\n" + string(out)
	}
	return ""
}

// build compiles a program and returns its path.
func build(t *testing.T, pkg string) string {
	t.Helper()
	path, err := program.Build(t.Context(), strings.TrimPrefix(pkg, "./"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
