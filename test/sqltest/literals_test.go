package sqltest

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

var (
	isSQL   = regexp.MustCompile(`(?i)\b(select|update|insert|delete|alter|create|with)\b`)
	literal = regexp.MustCompile(`(^|[^A-Za-z&])'((?:[^']|'')*)'`)
)

// TestNoStatementHasABackslashInAPlainLiteral reads the statements of our programs: where the database has
// standard_conforming_strings off, such a literal is another one. E'…' is the same everywhere.
func TestNoStatementHasABackslashInAPlainLiteral(t *testing.T) {
	t.Parallel()
	statements := 0
	for _, root := range []string{"../../internal", "../../pkg", "../../cmd", "../../adapters"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				of, ok := n.(*ast.BasicLit)
				if !ok || of.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(of.Value)
				if err != nil || !isSQL.MatchString(text) {
					return true
				}
				statements++
				for _, found := range literal.FindAllStringSubmatch(text, -1) {
					if strings.Contains(found[2], `\`) {
						t.Errorf("%s: '%s': write E'…', or do without the backslash", files.Position(of.Pos()), found[2])
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
	if statements < 500 {
		t.Errorf("there are %d statements, expected more", statements)
	}
}
