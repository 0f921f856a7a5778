package docstest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// source is a function.
type source struct {
	file, name string
	text       string        // of a function of the database
	body       *ast.FuncDecl // of one in Go
}

// sourceOf returns a function of a file. Methods are named Type.method, or by their name alone.
func sourceOf(file, name string) (*source, error) {
	if filepath.Ext(file) == ".sql" {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		m := regexp.MustCompile(`(?ms)^CREATE OR REPLACE FUNCTION ` + regexp.QuoteMeta(name) + `\(.*?(?:^\$\$;|^    RETURN [^;]*;)`).
			Find(content)
		if m == nil {
			return nil, fmt.Errorf("%s does not define %s", file, name)
		}
		comments := regexp.MustCompile(`--.*`)
		return &source{file: file, name: name, text: comments.ReplaceAllString(string(m), "")}, nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found *source
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Name.Name != name && receiver(f)+"."+f.Name.Name != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s defines %s twice: name the type too", file, name)
		}
		found = &source{file: file, name: name, body: f}
	}
	if found == nil {
		return nil, fmt.Errorf("%s does not define %s", file, name)
	}
	return found, nil
}

// functionOfDatabase finds a function of the database in the files of all.
func functionOfDatabase(name string) (*source, error) {
	files, err := filepath.Glob(filepath.Join(root, "migrations/functions/*.sql"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if s, err := sourceOf("migrations/functions/"+filepath.Base(file), name); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("there is no function %s", name)
}

// receiver returns the type whose method f is.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	e := f.Recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if generic, ok := e.(*ast.IndexExpr); ok {
		e = generic.X
	}
	return lastName(e)
}

// called is the name by which others call the function.
func (s *source) called() string {
	if s.body == nil {
		return s.name
	}
	return s.body.Name.Name
}

// find reports whether a part of the body is as wanted.
func (s *source) find(is func(ast.Node) bool) (found bool) {
	if s.body == nil {
		return false
	}
	ast.Inspect(s.body, func(n ast.Node) bool {
		found = found || n != nil && is(n)
		return !found
	})
	return found
}

func (s *source) calls(other *source) bool {
	if s.body == nil {
		return strings.Contains(s.text, other.name+"(")
	}
	return s.find(func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		return ok && lastName(c.Fun) == other.called()
	})
}

func (s *source) mentions(name string) bool {
	return s.find(func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		return ok && id.Name == name
	})
}

// selects reports whether the function uses a field.
func (s *source) selects(field string) bool {
	return s.find(func(n ast.Node) bool {
		e, ok := n.(*ast.SelectorExpr)
		return ok && e.Sel.Name == field
	})
}

// sets reports whether the function sets a field to a function literal.
func (s *source) sets(field string) bool {
	literal := func(e ast.Expr) bool {
		_, ok := e.(*ast.FuncLit)
		return ok
	}
	return s.find(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			return lastName(n.Key) == field && literal(n.Value)
		case *ast.AssignStmt:
			return lastName(n.Lhs[0]) == field && literal(n.Rhs[0])
		}
		return false
	})
}

// sends reports whether the function sends to a channel, or hands it to a function that does.
func (s *source) sends(channel string) bool {
	return s.find(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SendStmt:
			return lastName(n.Chan) == channel
		case *ast.CallExpr:
			return lastName(n.Fun) == "Signal" && lastName(n.Args[0]) == channel
		}
		return false
	})
}

func (s *source) receives(channel string) bool {
	return s.find(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.UnaryExpr:
			return n.Op == token.ARROW && lastName(n.X) == channel
		case *ast.RangeStmt:
			return lastName(n.X) == channel
		}
		return false
	})
}

// statements returns the text of a function of the database. For one in Go it returns the constants that it uses,
// with the functions of the database that they call.
func (s *source) statements() (string, error) {
	if s.body == nil {
		return s.text, nil
	}
	constants, err := constantsIn(filepath.Dir(s.file), "queries*.go")
	var b strings.Builder
	for name, text := range constants {
		if !s.mentions(name) {
			continue
		}
		b.WriteString(text + "\n")
		for _, m := range regexp.MustCompile(`(tidemark\.\w+)\(`).FindAllStringSubmatch(text, -1) {
			if called, err := functionOfDatabase(m[1]); err == nil {
				b.WriteString(called.text + "\n")
			}
		}
	}
	return b.String(), err
}

// lastName returns f of f, x.f, f[T] and x.f[T].
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return lastName(e.X)
	}
	return ""
}

// constantsIn returns the texts of the constants in some files of a package, with those that they are made of.
func constantsIn(dir, pattern string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(root, dir, pattern))
	if err != nil {
		return nil, err
	}
	made := map[string]ast.Expr{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i := range v.Values {
					made[v.Names[i].Name] = v.Values[i]
				}
			}
		}
	}
	var textOf func(e ast.Expr) string
	textOf = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			text, _ := strconv.Unquote(e.Value)
			return text
		case *ast.Ident:
			if of := made[e.Name]; of != nil {
				return textOf(of)
			}
		case *ast.BinaryExpr:
			return textOf(e.X) + textOf(e.Y)
		}
		return ""
	}
	texts := map[string]string{}
	for name, e := range made {
		texts[name] = textOf(e)
	}
	return texts, nil
}
