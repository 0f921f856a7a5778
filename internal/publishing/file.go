package publishing

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/internal/slice"
)

// file reads a parsed file and collects its mistakes, so all are reported together.
type file struct {
	name     string
	mistakes []mistake
}

type mistake struct {
	line int
	err  error
}

type field struct {
	name  string
	key   ast.Node
	value ast.Node
}

func (f *file) wrong(at ast.Node, format string, args ...any) {
	line := 1
	if at != nil && at.GetToken() != nil {
		line = at.GetToken().Position.Line
	}
	f.mistakes = append(f.mistakes, mistake{line, fmt.Errorf(format, args...)})
}

// err returns the mistakes in the order of their lines, or nil.
func (f *file) err() error {
	slices.SortStableFunc(f.mistakes, func(a, b mistake) int { return cmp.Compare(a.line, b.line) })
	return errors.Join(slice.Of(f.mistakes, func(m mistake) error {
		return fmt.Errorf("%s:%d: %w", f.name, m.line, m.err)
	})...)
}

// fields returns the entries of a mapping in the order they are written.
func (f *file) fields(node ast.Node, what string) []field {
	if isEmpty(node) {
		return nil
	}
	mapping, ok := node.(ast.MapNode)
	if !ok {
		f.wrong(node, "%s must be a mapping of names to values", what)
		return nil
	}
	var fields []field
	seen := map[string]int{} // the line of each name
	for entry := mapping.MapRange(); entry.Next(); {
		at := field{name: entry.Key().GetToken().Value, key: entry.Key(), value: entry.Value()}
		if first, twice := seen[at.name]; twice {
			f.wrong(at.key, "%s has %q twice, first in line %d: leave one of them out", what, at.name, first)
			continue
		}
		seen[at.name] = at.key.GetToken().Position.Line
		fields = append(fields, at)
	}
	return fields
}

// decode decodes fields into a pointer to a struct, by its [setting.Fields], and records mistakes.
// what names the mapping; prefix is put before field names in messages.
func (f *file) decode(fields []field, what, prefix string, into any) {
	known := setting.Fields(into)
	for _, at := range fields {
		place, ok := known.Find(at.name)
		switch {
		case !ok:
			f.wrong(at.key, "%s has no field %q: it may have %s", what, at.name, known)
		case !isEmpty(at.value):
			at.name = prefix + at.name
			f.put(at, place)
		}
	}
}

func (f *file) put(at field, place setting.Field) {
	switch into := place.Into.(type) {
	case *field:
		*into = at
	case *[]string:
		*into = f.texts(at)
		for _, text := range *into {
			if len(place.OneOf) > 0 && !slices.Contains(place.OneOf, text) {
				f.wrong(at.key, "%s holds %q, it may hold %s", at.name, text, strings.Join(place.OneOf, ", "))
			}
		}
	case *map[string]string:
		*into = map[string]string{}
		for _, entry := range f.fields(at.value, at.name) {
			(*into)[entry.name] = f.text(entry)
		}
	case *cloudEvents:
		f.decode(f.fields(at.value, at.name), at.name, "", into)
	default:
		before := len(f.mistakes)
		text := f.text(at)
		if want := place.Parse(text); want != "" && len(f.mistakes) == before {
			f.wrong(at.key, "%s is %q, it must be %s", at.name, text, want)
		}
	}
}

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

// texts returns a list of at least one text. A single text is a list of one.
func (f *file) texts(at field) (texts []string) {
	items := []ast.Node{at.value}
	if list, ok := at.value.(*ast.SequenceNode); ok {
		items = list.Values
	}
	if len(items) == 0 {
		f.wrong(at.key, "%s is empty: name at least one, or leave it out", at.name)
	}
	for _, item := range items {
		text := f.text(field{"each item of " + at.name, item, item})
		if text == "" {
			f.wrong(item, "%s holds an empty item: leave it out", at.name)
			continue
		}
		texts = append(texts, text)
	}
	return texts
}

// expand replaces ${NAME} with environment variables in all texts below the node, e.g. for passwords.
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

func (v visitor) Visit(n ast.Node) ast.Visitor {
	v(n)
	return v
}

func isEmpty(node ast.Node) bool {
	_, null := node.(*ast.NullNode)
	return node == nil || null
}
