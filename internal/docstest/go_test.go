package docstest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGoSnippets(t *testing.T) {
	t.Parallel()
	var sources []string
	for _, dir := range []string{"examples", "internal/docstest", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			content, err := os.ReadFile(path)
			sources = append(sources, flatten(string(content)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	checked := 0
	for _, p := range pages(t) {
		for _, s := range p.in("go") {
			checked++
			if !anyContains(sources, flatten(s.text)) {
				t.Errorf("%s:%d: this Go stands in no .go file under examples/, internal/docstest/ or pkg/, so nothing "+
					"compiles it", p.path, s.line)
			}
		}
	}
	if checked == 0 {
		t.Error("no Go in the docs: the README should have some")
	}
}

// flatten removes white space and comment marks, because a snippet is indented less than its source
// and can be wrapped elsewhere.
func flatten(code string) string {
	var flat []string
	for _, line := range strings.Split(code, "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), "//")
		flat = append(flat, strings.Fields(line)...)
	}
	return strings.NewReplacer(",)", ")", ",}", "}", "\"+\"", "").Replace(strings.Join(flat, ""))
}

func anyContains(texts []string, part string) bool {
	for _, text := range texts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
