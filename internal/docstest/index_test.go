package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestIndex checks that docs/README.md lists each page once.
func TestIndex(t *testing.T) {
	t.Parallel()
	const index = "docs/README.md"
	listed := map[string]int{}
	for _, p := range pages(t) {
		if p.path != index {
			continue
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`).FindAllStringSubmatch(p.text, -1) {
			listed[filepath.Join("docs", m[1])]++
		}
	}
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.path, "docs/") || strings.HasPrefix(p.path, "docs/adr/") || p.path == index {
			continue
		}
		if listed[p.path] != 1 {
			t.Errorf("%s lists %s %d times, not once", index, p.path, listed[p.path])
		}
	}
}

func TestLinksOfLLMsText(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, "llms.txt"))
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(content), -1)
	if len(links) < 10 {
		t.Errorf("llms.txt has %d links", len(links))
	}
	for _, m := range links {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("llms.txt: %v", err)
		}
	}
}
