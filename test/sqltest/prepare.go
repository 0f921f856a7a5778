package sqltest

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// statement matches constants that begin like SQL.
var statement = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|LOCK|` +
	`CREATE|DROP|ALTER|TRUNCATE|NOTIFY|LISTEN|SET)\b`)

// Prepare prepares every constant of the package in the test's directory that is an SQL statement.
// It fails the test for statements that do not run on the schema behind pool. It reads the source,
// so new constants are covered without a list. In format strings it replaces %s by table. It skips
// the named constants, and formats with more than a table, whose names begin with format.
func Prepare(t *testing.T, pool *pgxpool.Pool, table string, except ...string) {
	t.Helper()
	statements := constants(t, ".")
	if len(statements) == 0 {
		t.Fatal("the package has no constant that is an SQL statement")
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for name, sql := range statements {
		if strings.HasPrefix(name, "format") || slices.Contains(except, name) {
			continue
		}
		sql = strings.ReplaceAll(sql, "%s", table)
		if _, err := conn.Conn().Prepare(t.Context(), name, sql); err != nil {
			t.Errorf("%s does not prepare: %v\n%s", name, err, sql)
		}
	}
}

// constants returns the package's constants that are SQL statements, by name.
func constants(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	var sources []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, source)
	}
	// Imports are not resolved: string constants need none.
	info := types.Info{Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Error: func(error) {}, Importer: nowhere{}}
	_, _ = config.Check(dir, files, sources, &info)
	found := map[string]string{}
	for name, object := range info.Defs {
		c, ok := object.(*types.Const)
		if ok && c.Val().Kind() == constant.String && statement.MatchString(constant.StringVal(c.Val())) {
			found[name.Name] = constant.StringVal(c.Val())
		}
	}
	return found
}

// nowhere is an importer that finds nothing.
type nowhere struct{}

func (nowhere) Import(path string) (*types.Package, error) {
	return nil, &fs.PathError{Op: "import", Path: path, Err: fs.ErrNotExist}
}
