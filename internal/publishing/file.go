package publishing

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// file walks over a parsed file and gathers the mistakes it meets, so that all of them are reported together.
type file struct {
	name     string
	mistakes []mistake
}

type mistake struct {
	line int
	err  error
}

// field is an entry of a mapping.
type field struct {
	name  string
	key   ast.Node
	value ast.Node
}

// wrong notes a mistake at the node's line.
func (f *file) wrong(at ast.Node, format string, args ...any) {
	line := 1
	if at != nil && at.GetToken() != nil {
		line = at.GetToken().Position.Line
	}
	f.mistakes = append(f.mistakes, mistake{line, fmt.Errorf(format, args...)})
}

// wrongYAML notes a mistake that the YAML package has found; at is where, if it does not say.
func (f *file) wrongYAML(at ast.Node, err error, format string, args ...any) {
	text, _, _ := strings.Cut(err.Error(), "\n")
	line := 1
	if at != nil {
		line = at.GetToken().Position.Line
	}
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		text = syntax.GetMessage()
		if token := syntax.GetToken(); token != nil {
			line = token.Position.Line
		}
	}
	f.mistakes = append(f.mistakes, mistake{line, fmt.Errorf(format+": %s", append(args, text)...)})
}

// err is the mistakes in the order of their lines, or nil.
func (f *file) err() error {
	if len(f.mistakes) == 0 {
		return nil
	}
	slices.SortStableFunc(f.mistakes, func(a, b mistake) int { return cmp.Compare(a.line, b.line) })
	errs := make([]error, len(f.mistakes))
	for i, m := range f.mistakes {
		errs[i] = fmt.Errorf("%s:%d: %w", f.name, m.line, m.err)
	}
	return errors.Join(errs...)
}

// fields answers the entries of a mapping in the order they are written. With known given, other names are mistakes.
func (f *file) fields(node ast.Node, what string, known ...string) []field {
	if isEmpty(node) {
		return nil
	}
	mapping, ok := node.(ast.MapNode)
	if !ok {
		f.wrong(node, "%s must be a mapping of names to values", what)
		return nil
	}
	var fields []field
	seen := map[string]int{} // names: the lines they stand in
	for entry := mapping.MapRange(); entry.Next(); {
		name := field{name: entry.Key().GetToken().Value, key: entry.Key(), value: entry.Value()}
		if len(known) > 0 && !slices.Contains(known, name.name) {
			f.wrong(name.key, "%s has no field %q: it may have %s", what, name.name, strings.Join(known, ", "))
			continue
		}
		line := name.key.GetToken().Position.Line
		if first, twice := seen[name.name]; twice {
			f.wrong(name.key, "%s has %q twice, first in line %d: leave one of them out", what, name.name, first)
			continue
		}
		seen[name.name] = line
		fields = append(fields, name)
	}
	return fields
}

// text answers the scalar that a field holds.
func (f *file) text(at field) string {
	switch node := at.value.(type) {
	case *ast.StringNode:
		return node.Value
	case *ast.LiteralNode:
		return node.Value.Value
	case ast.ScalarNode:
		return node.GetToken().Value
	}
	kind := "a mapping"
	if _, list := at.value.(*ast.SequenceNode); list {
		kind = "a list"
	}
	f.wrong(at.key, "%s is %s, it must be one text", at.name, kind)
	return ""
}

// texts answers a list of texts, of which there is at least one; one text is a list of one.
func (f *file) texts(at field) (texts []string) {
	if none(at.value) {
		f.wrong(at.key, "%s is empty: name at least one, or leave it out", at.name)
		return nil
	}
	list, ok := at.value.(*ast.SequenceNode)
	if !ok {
		if text := f.text(at); text != "" {
			texts = append(texts, text)
		}
		return texts
	}
	for _, item := range list.Values {
		text := f.text(field{"each item of " + at.name, item, item})
		if text == "" {
			f.wrong(item, "%s holds an empty item: leave it out", at.name)
			continue
		}
		texts = append(texts, text)
	}
	return texts
}

// number answers a whole number from least to most.
func (f *file) number(at field, least, most int64) int64 {
	text := f.text(at)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		f.wrong(at.key, "%s is %q, it must be a whole number from %d to %d", at.name, text, least, most)
		return 0
	}
	return n
}

// duration answers a length of time of at least a millisecond.
func (f *file) duration(at field) time.Duration {
	text := f.text(at)
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond {
		f.wrong(at.key, "%s is %q, it must be a length of time such as 500ms, 30s or 5m, and at least 1ms", at.name, text)
		return 0
	}
	return d
}

// choice answers one of the choices.
func choice[T ~string](f *file, at field, choices ...T) T {
	text := f.text(at)
	for _, c := range choices {
		if T(text) == c {
			return c
		}
	}
	f.wrong(at.key, "%s is %q, it may be one of %v", at.name, text, choices)
	return ""
}

// expand puts environment variables, written ${NAME}, into all texts below the node, so that no
// password has to stand in the file.
func (f *file) expand(node ast.Node) {
	ast.Walk(visitor(func(n ast.Node) {
		s, ok := n.(*ast.StringNode)
		if !ok {
			return
		}
		s.Value = os.Expand(strings.ReplaceAll(s.Value, "$$", "${$}"), func(name string) string {
			if name == "$" {
				return "$"
			}
			value, ok := os.LookupEnv(name)
			if !ok {
				f.wrong(n, "the environment has no variable %s: set it, or write $$ for a dollar sign", name)
			}
			return value
		})
	}), node)
}

type visitor func(ast.Node)

// Visit calls the function for each node.
func (v visitor) Visit(n ast.Node) ast.Visitor {
	v(n)
	return v
}

func isEmpty(node ast.Node) bool {
	_, null := node.(*ast.NullNode)
	return node == nil || null
}

// none tells whether there is nothing, or a list of nothing.
func none(node ast.Node) bool {
	list, ok := node.(*ast.SequenceNode)
	return isEmpty(node) || ok && len(list.Values) == 0
}
