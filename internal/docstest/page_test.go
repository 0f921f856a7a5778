package docstest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the repository's folder, relative to this package.
const root = "../.."

// snippet is a fenced block of a page.
type snippet struct {
	line int // of its fence
	lang string
	text string
}

// page is a documentation file.
type page struct {
	path     string // relative to the root
	text     string // without the fenced blocks
	snippets []snippet
}

// in returns the page's snippets in a language.
func (p page) in(lang string) []snippet {
	return slices.DeleteFunc(slices.Clone(p.snippets), func(s snippet) bool { return s.lang != lang })
}

// pages reads all of docs/, the README and the files beside it.
func pages(t *testing.T) []page {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	if len(paths) < 5 {
		t.Fatalf("found %d pages under %s, there are more", len(paths), root)
	}
	var all []page
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parse(t, name, string(content)))
	}
	return all
}

func parse(t *testing.T, path, content string) page {
	t.Helper()
	p := page{path: path}
	var open *snippet
	var text, prose strings.Builder
	for i, line := range strings.SplitAfter(content, "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			open = &snippet{line: i + 1, lang: fence}
		case isFence:
			open.text = text.String()
			p.snippets = append(p.snippets, *open)
			open = nil
			text.Reset()
		case open != nil:
			text.WriteString(line)
		default:
			prose.WriteString(line)
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: this block is not closed", path, open.line)
	}
	p.text = prose.String()
	return p
}

func TestPages(t *testing.T) {
	t.Parallel()
	t.Run("name the language of every snippet", func(t *testing.T) {
		t.Parallel()
		known := []string{"go", "sql", "sql duckdb", "python", "js", "sh", "yaml", "json", "text", "text output"}
		for _, p := range pages(t) {
			for _, s := range p.snippets {
				if p.path == "docs/tutorial/first-worker.md" { // TestTutorial checks this page
					continue
				}
				if !slices.Contains(known, s.lang) {
					t.Errorf("%s:%d: a snippet in %q; doc.go says which languages are checked, and how", p.path, s.line, s.lang)
				}
			}
		}
	})
	t.Run("are parsed with the line of each snippet", func(t *testing.T) {
		t.Parallel()
		p := parse(t, "x.md", "# A\n\n```sh\nmake\n```\ntext\n```text\n\n```\n")
		want := []snippet{{line: 3, lang: "sh", text: "make\n"}, {line: 7, lang: "text", text: "\n"}}
		if !slices.Equal(p.snippets, want) || p.text != "# A\n\ntext\n" {
			t.Errorf("parsed %+v", p)
		}
	})
}
