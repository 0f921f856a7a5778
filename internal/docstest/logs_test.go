package docstest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestLogKeys compares the log keys of the programs with the table in
// docs/guides/operations/monitoring.md. It also checks that no event's payload is logged. Sinks
// that log or count events for their users have keys of their own and are exempt.
func TestLogKeys(t *testing.T) {
	t.Parallel()
	said := map[string]string{} // positions by key
	fset := token.NewFileSet()
	for _, dir := range []string{"cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
				strings.Contains(filepath.ToSlash(path), "pkg/sink/") {
				return err
			}
			file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if args, ok := logged(call); ok {
						noteKeys(t, fset, args, said)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(filepath.Join(root, "docs/guides/operations/monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(content), "\n## Logs\n")
	if !found {
		t.Fatal("docs/guides/operations/monitoring.md has no section on logs")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(section, -1) {
		for _, key := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(m[1], -1) {
			listed[key[1]] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(said)) {
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(key) {
			t.Errorf("%s: the key %q is not in snake_case", said[key], key)
		}
		if !listed[key] {
			t.Errorf("%s: the key %q is not in the table of logs in docs/guides/operations/monitoring.md: take one that is, or add it",
				said[key], key)
		}
	}
	for key := range listed {
		if said[key] == "" {
			t.Errorf("docs/guides/operations/monitoring.md lists the key %q, and nothing is logged under it", key)
		}
	}
}

// logged returns the keys and values of a logger's call.
func logged(call *ast.CallExpr) ([]ast.Expr, bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, false
	}
	var of string
	switch x := method.X.(type) {
	case *ast.Ident:
		of = x.Name
	case *ast.SelectorExpr:
		of = x.Sel.Name
	}
	if !slices.Contains([]string{"log", "logger", "Logger"}, of) {
		return nil, false
	}
	first := map[string]int{
		"With": 0, "Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "DebugContext": 2, "InfoContext": 2, "WarnContext": 2,
		"ErrorContext": 2, "Log": 3,
	}
	n, ok := first[method.Sel.Name]
	return call.Args[min(n, len(call.Args)):], ok
}

// noteKeys records the position of each key.
func noteKeys(t *testing.T, fset *token.FileSet, args []ast.Expr, said map[string]string) {
	t.Helper()
	for i := 0; i < len(args); i++ {
		at := strings.TrimPrefix(fset.Position(args[i].Pos()).String(), root+"/")
		key := args[i]
		group, isGroup := key.(*ast.CallExpr)
		if isGroup && len(group.Args) > 0 {
			key = group.Args[0] // slog.Group("key", …)
		}
		literal, ok := key.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			t.Errorf("%s: a log's key should be written out", at)
			return
		}
		name, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		said[name] = at
		if isGroup {
			continue
		}
		if i++; i == len(args) {
			t.Errorf("%s: the key %q has no value", at, name)
			return
		}
		ast.Inspect(args[i], func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "Payload" || s.Sel.Name == "Metadata") {
				t.Errorf("%s: a %s is logged", at, strings.ToLower(s.Sel.Name))
			}
			return true
		})
	}
}
