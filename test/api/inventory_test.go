package api

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const inventory = "inventory.txt"

// TestTheInventoryNamesAllThatUsersTouch lists commands with their flags, settings, metrics, calls of the
// API, pages, and tables and functions of the database, so that a change which takes one away shows it.
// Each comes from a page or file that another test keeps true. pkg/api.txt has the names of the library.
// UPDATE_GOLDEN=1 writes the list.
func TestTheInventoryNamesAllThatUsersTouch(t *testing.T) {
	t.Parallel()
	lines := slices.Concat(commands(t), rows(t, "setting", "docs/reference/configuration.md", `TIDEMARK_[A-Z_]+`),
		rows(t, "metric", "docs/reference/metrics.md", `tidemark_[a-z_]+`), calls(t), pages(t), objects(t))
	slices.Sort(lines)
	lines = slices.Compact(lines)
	for kind, least := range map[string]int{
		"command ": 50, "flag ": 200, "setting ": 40, "metric ": 40, "call ": 40, "page ": 20, "table ": 20, "function ": 100,
	} {
		n := 0
		for _, line := range lines {
			if strings.HasPrefix(line, kind) {
				n++
			}
		}
		if n < least {
			t.Errorf("found %d lines that begin with %q, there are more", n, kind)
		}
	}
	got := strings.Join(lines, "\n") + "\n"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(inventory, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	listed := strings.Split(strings.TrimSpace(text(t, "test/api/"+inventory)), "\n")
	for _, line := range lines {
		if !slices.Contains(listed, line) {
			t.Errorf("new: %s. UPDATE_GOLDEN=1 go test ./test/api adds it", line)
		}
	}
	for _, line := range listed {
		if !slices.Contains(lines, line) {
			t.Errorf("gone: %s. What took its place? UPDATE_GOLDEN=1 go test ./test/api takes it out", line)
		}
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// commands returns the commands, and the flags that each of them has for itself.
func commands(t *testing.T) (lines []string) {
	t.Helper()
	_, reference, _ := strings.Cut(text(t, "docs/reference/commands.md"), "\n## All commands\n")
	section := regexp.MustCompile("(?m)^### `(.+)`$")
	flag := regexp.MustCompile(`(?m)^ +(?:-[a-zA-Z], )?--([a-z0-9-]+)`)
	heads := section.FindAllStringSubmatchIndex(reference, -1)
	for i, head := range heads {
		end := len(reference)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		name := reference[head[2]:head[3]]
		lines = append(lines, "command "+name)
		_, flags, _ := strings.Cut(reference[head[1]:end], "\nFlags:\n")
		flags, _, _ = strings.Cut(flags, "\n\n")
		for _, m := range flag.FindAllStringSubmatch(flags, -1) {
			lines = append(lines, "flag "+name+" --"+m[1])
		}
	}
	return lines
}

// rows returns the names in the first column of a page's tables.
func rows(t *testing.T, kind, path, pattern string) (lines []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?m)^\\| `("+pattern+")`").FindAllStringSubmatch(text(t, path), -1) {
		lines = append(lines, kind+" "+m[1])
	}
	return lines
}

// calls returns the methods and paths of the API.
func calls(t *testing.T) (lines []string) {
	t.Helper()
	path := ""
	for line := range strings.Lines(text(t, "internal/surface/api/openapi.yaml")) {
		if m := regexp.MustCompile(`^  (/\S+):`).FindStringSubmatch(line); m != nil {
			path = m[1]
		}
		if m := regexp.MustCompile(`^    (get|post|put|patch|delete):`).FindStringSubmatch(line); m != nil && path != "" {
			lines = append(lines, "call "+strings.ToUpper(m[1])+" "+path)
		}
	}
	return lines
}

// pages returns the pages of operators, by the files in which they are reviewed.
func pages(t *testing.T) (lines []string) {
	t.Helper()
	files, err := filepath.Glob("../../internal/surface/pages/testdata/*.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		lines = append(lines, "page "+strings.TrimSuffix(filepath.Base(file), ".html"))
	}
	return lines
}

// objects returns the tables, views and functions of the schema tidemark.
func objects(t *testing.T) (lines []string) {
	t.Helper()
	files, err := filepath.Glob("../../migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`(?m)^\s*CREATE (?:OR REPLACE )?(TABLE|VIEW|FUNCTION|PROCEDURE) tidemark\.([a-z_]+)`)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		up, _, _ := strings.Cut(string(content), "\n-- +goose Down")
		for _, m := range made.FindAllStringSubmatch(up, -1) {
			lines = append(lines, strings.ToLower(m[1])+" tidemark."+m[2])
		}
	}
	return lines
}
