package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	library = "../../pkg"
	list    = library + "/api.txt"
)

// TestEveryExportedNameOfTheLibraryIsListed compares the exported names of pkg/ with pkg/api.txt,
// so that each new name is a decision. UPDATE_GOLDEN=1 writes the list.
func TestEveryExportedNameOfTheLibraryIsListed(t *testing.T) {
	t.Parallel()
	names := exported(t)
	got := strings.Join(names, "\n") + "\n"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(list, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	content, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Split(strings.TrimSpace(string(content)), "\n")
	for _, name := range names {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is exported and is not in pkg/api.txt", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(names, name) {
			t.Errorf("%s is in pkg/api.txt and is not exported", name)
		}
	}
	if got != string(content) && !t.Failed() {
		t.Error("pkg/api.txt is not sorted, or has a name twice")
	}
	if t.Failed() {
		methods := 0
		for _, name := range names {
			if strings.Count(name, ".") > 1 {
				methods++
			}
		}
		t.Errorf("pkg/ exports %d names at package level, and %d methods. Does a user of the library need the new one? "+
			"Else it belongs in internal/. If so: UPDATE_GOLDEN=1 go test ./test/api", len(names)-methods, methods)
	}
}

// exported returns the exported names of the packages that users can import, as path.Name or
// path.Type.Method, sorted. It omits the methods of a type alias.
func exported(t *testing.T) []string {
	t.Helper()
	var names []string
	public(t, func(within string, file *ast.File) {
		for _, decl := range file.Decls {
			for _, name := range declared(decl) {
				names = append(names, within+"."+name)
			}
		}
	})
	slices.Sort(names)
	if names = slices.Compact(names); len(names) < 100 {
		t.Fatalf("found %d names, there are more: %q", len(names), names)
	}
	return names
}

// public visits the files of the packages that users can import, with the package's path in pkg/.
func public(t *testing.T, visit func(within string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(library, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "internal" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		within, err := filepath.Rel(library, filepath.Dir(path))
		visit(filepath.ToSlash(within), file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// declared returns the exported names of a declaration.
func declared(decl ast.Decl) (names []string) {
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names = append(names, id.Name)
		}
	}
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil {
			add(decl.Name)
		} else if of := receiver(decl.Recv.List[0].Type); ast.IsExported(of) && decl.Name.IsExported() {
			names = append(names, of+"."+decl.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				add(spec.Name)
			case *ast.ValueSpec:
				for _, id := range spec.Names {
					add(id)
				}
			}
		}
	}
	return names
}

// receiver returns the name of a method's type.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}
