package api

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// inside lists what pkg/ still shows of types that only internal/ declares, where no user can read them. The
// list only gets shorter: what a user touches is declared in pkg/.
const inside = `
alias projector.Action
alias projector.ApplyError
alias projector.Checker
alias projector.Class
alias projector.Do
alias projector.Document
alias projector.Group
alias projector.Handlers
alias projector.Loader
alias projector.Mode
alias projector.NotAppliedError
alias projector.OwnerError
alias projector.Policy
alias projector.Process
alias projector.Projection
alias projector.Resetter
alias projector.Scope
alias projector.Spec
alias projector.Tx
alias projector.VerifyReport
alias projector.VerifyRequest
alias projector.Waiter
alias projector.WhyRequest
field projector.Config.OnStep
signature projector.Projector.AsOf
signature projector.Projector.Diff
signature projector.Projector.Why
`

// TestWhatAUserTouchesIsDeclaredWhereHeCanReadIt looks for type aliases in pkg/ that lead to internal/, and
// for exported functions, methods and fields whose types are from there.
func TestWhatAUserTouchesIsDeclaredWhereHeCanReadIt(t *testing.T) {
	t.Parallel()
	var found []string
	public(t, func(within string, file *ast.File) {
		for _, name := range hidden(file) {
			what, of, _ := strings.Cut(name, " ")
			found = append(found, what+" "+within+"."+of)
		}
	})
	slices.Sort(found)
	found = slices.Compact(found)
	known := strings.Split(strings.TrimSpace(inside), "\n")
	for _, name := range found {
		if !slices.Contains(known, name) {
			t.Errorf("%s leads to internal/: declare the type in pkg/", name)
		}
	}
	for _, name := range known {
		if !slices.Contains(found, name) {
			t.Errorf("%s is mended: take it off the list", name)
		}
	}
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
