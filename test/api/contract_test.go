package api

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestWhatAUserTouchesIsDeclaredWhereHeCanReadIt looks for type aliases in pkg/ that lead to internal/, and
// for exported functions, methods, fields and constants whose types or values are from there.
func TestWhatAUserTouchesIsDeclaredWhereHeCanReadIt(t *testing.T) {
	t.Parallel()
	public(t, func(within string, file *ast.File) {
		for _, name := range hidden(file) {
			what, of, _ := strings.Cut(name, " ")
			t.Errorf("%s %s.%s leads to internal/: declare the type in pkg/", what, within, of)
		}
	})
}

// shows lists types of which go doc shows the fields, or the methods of those that have none.
const shows = `
event.Event event.Query event.Item event.Cursor event.Window event.DecodeError event.ArchivedError event.ResetError
projection.Document projection.Handlers projection.Process projection.Spec projection.Policy projection.Group
projection.Do projection.ApplyError lookback.State lookback.Change lookback.Why lookback.VerifyRequest
lookback.VerifyReport lookback.Difference lookback.OwnerError waiter.NotAppliedError projector.Config worker.Options
publisher.Config publisher.Topic publisher.Publisher publisher.Sink publisher.Message publisher.BatchError
journal.Appended journal.Batch journal.Command journal.Decision journal.Outcome journal.Token journal.Journal
journal.InvalidEventError catalogue.EventType catalogue.Schema catalogue.Wrapper catalogue.Change catalogue.Report
catalogue.Misfit`

// TestDocumentationShowsTheFields looks for exported fields, or methods of interfaces, of the types that users
// fill in and read.
func TestDocumentationShowsTheFields(t *testing.T) {
	t.Parallel()
	shown := map[string]int{}
	public(t, func(within string, file *ast.File) {
		for _, decl := range file.Decls {
			of, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range of.Specs {
				if declared, ok := spec.(*ast.TypeSpec); ok {
					shown[within+"."+declared.Name.Name] = members(declared.Type)
				}
			}
		}
	})
	for _, name := range strings.Fields(shows) {
		if shown[name] == 0 {
			t.Errorf("%s shows no field and no method", name)
		}
	}
}

// members counts the exported fields of a struct, or the methods of an interface.
func members(of ast.Expr) (n int) {
	var list *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		list = of.Fields
	case *ast.InterfaceType:
		list = of.Methods
	default:
		return 0
	}
	for _, field := range list.List {
		if slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
			n++
		}
	}
	return n
}

// hidden returns what a file shows of types of internal/.
func hidden(file *ast.File) (names []string) {
	internal := map[string]bool{}
	for _, i := range file.Imports {
		if path := strings.Trim(i.Path.Value, `"`); strings.Contains(path, "/internal/") {
			name := path[strings.LastIndex(path, "/")+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			internal[name] = true
		}
	}
	leads := func(node ast.Node) (yes bool) {
		ast.Inspect(node, func(n ast.Node) bool {
			if of, ok := n.(*ast.SelectorExpr); ok {
				if from, ok := of.X.(*ast.Ident); ok && internal[from.Name] {
					yes = true
				}
			}
			return !yes
		})
		return yes
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if len(declared(decl)) > 0 && leads(decl.Type) {
				names = append(names, "signature "+declared(decl)[0])
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if value, ok := spec.(*ast.ValueSpec); ok && decl.Tok == token.CONST {
					for i, name := range value.Names {
						if name.IsExported() && (value.Type != nil && leads(value.Type) ||
							i < len(value.Values) && leads(value.Values[i])) {
							names = append(names, "constant "+name.Name)
						}
					}
				}
				of, ok := spec.(*ast.TypeSpec)
				switch {
				case !ok || !of.Name.IsExported():
				case of.Assign.IsValid() && leads(of.Type):
					names = append(names, "alias "+of.Name.Name)
				default:
					names = append(names, shown(of, leads)...)
				}
			}
		}
	}
	return names
}

// shown returns the exported or embedded fields of a struct, and the methods of an interface, that have types
// of internal/.
func shown(spec *ast.TypeSpec, leads func(ast.Node) bool) (names []string) {
	var fields *ast.FieldList
	switch of := spec.Type.(type) {
	case *ast.StructType:
		fields = of.Fields
	case *ast.InterfaceType:
		fields = of.Methods
	default:
		if leads(of) {
			names = append(names, "type "+spec.Name.Name)
		}
		return names
	}
	for _, field := range fields.List {
		exported := len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported)
		if exported && leads(field.Type) {
			name := spec.Name.Name
			if len(field.Names) > 0 {
				name += "." + field.Names[0].Name
			}
			names = append(names, "field "+name)
		}
	}
	return names
}

// TestEachPackageSaysHowStableItIs looks for a word on it in the comment of each package.
func TestEachPackageSaysHowStableItIs(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	public(t, func(within string, file *ast.File) {
		said[within] = said[within] || file.Doc != nil && strings.Contains(file.Doc.Text(), "\nStability: ")
	})
	for within, does := range said {
		if !does {
			t.Errorf("the comment of package %s has no paragraph that begins with Stability", within)
		}
	}
}
