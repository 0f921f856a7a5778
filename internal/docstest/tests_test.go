package docstest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNamedTests checks that each row of docs/contributing/publishing-tests.md names tests that
// exist in its folder.
func TestNamedTests(t *testing.T) {
	t.Parallel()
	const path = "docs/contributing/publishing-tests.md"
	quoted := regexp.MustCompile("`([^`]+)`")
	named := 0
	for _, p := range pages(t) {
		if p.path != path {
			continue
		}
		for line := range strings.SplitSeq(p.text, "\n") {
			cells := strings.Split(strings.Trim(line, "| "), " | ")
			if len(cells) != 3 || strings.HasPrefix(cells[1], "-") || cells[1] == "tests" {
				continue
			}
			functions := functionsIn(t, strings.Trim(cells[2], "`"))
			for _, name := range quoted.FindAllStringSubmatch(cells[1], -1) {
				named++
				if !strings.Contains(functions, "\nfunc "+name[1]+"(") {
					t.Errorf("%s: there is no %s in %s", path, name[1], cells[2])
				}
			}
			if !strings.Contains(cells[1], "`") {
				t.Errorf("%s: no test shows that %s", path, cells[0])
			}
		}
	}
	if named < 100 {
		t.Errorf("%s names %d tests, there were more", path, named)
	}
}

// functionsIn returns the source of the tests in a folder.
func functionsIn(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("there are no tests in %s: %v", folder, err)
	}
	var all strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("\n")
		all.Write(content)
	}
	return all.String()
}

// TestGuaranteesNameTheirTests checks that each promise names tests, and that the named tests
// exist and have names that one can read.
func TestGuaranteesNameTheirTests(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		content, err := os.ReadFile(path)
		for _, name := range function.FindAllStringSubmatch(string(content), -1) {
			there[name[1]] = true
			if len(name[1]) > len("Test")+60 {
				t.Errorf("%s: %s has more than 60 letters: say the behaviour shorter", path, name[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test[A-Z]\\w+)`")
	for _, p := range pages(t) {
		for _, name := range named.FindAllStringSubmatch(p.text, -1) {
			if !there[name[1]] && strings.HasPrefix(p.path, "docs/") {
				t.Errorf("%s: there is no test %s", p.path, name[1])
			}
		}
		if p.path != "docs/explanation/guarantees.md" {
			continue
		}
		for section := range strings.SplitSeq(p.text, "\n## ") {
			title, text, _ := strings.Cut(section, "\n")
			if title != "# Guarantees" && title != "Where the promises end" && !named.MatchString(text) {
				t.Errorf("%s: no test shows %q", p.path, title)
			}
		}
	}
}
