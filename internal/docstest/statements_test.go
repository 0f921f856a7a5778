package docstest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestStatementsStandInFilesOfTheirOwn expects SQL that reads or writes rows in the queries*.go of
// a package, where a reader finds all of its statements. DDL that code composes from names stays
// with the code.
func TestStatementsStandInFilesOfTheirOwn(t *testing.T) {
	t.Parallel()
	statement := regexp.MustCompile(`^\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH(?: RECURSIVE)?)\s+[\w"$%(*]`)
	remedies := map[string]bool{"internal/doctor/server.go": true, "internal/status/postgres.go": true} // people type them
	found := 0
	for _, room := range []string{"adapters", "cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			own := strings.HasPrefix(filepath.Base(path), "queries")
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(literal.Value)
				if err != nil || !statement.MatchString(text) || strings.Contains(text, "WITH (FORCE)") {
					return true
				}
				found++
				name, _ := filepath.Rel(root, path)
				if !own && !remedies[filepath.ToSlash(name)] {
					t.Errorf("%s:%d: a statement outside of queries.go", name, files.Position(literal.Pos()).Line)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 100 {
		t.Errorf("found %d statements, there are more", found)
	}
}
