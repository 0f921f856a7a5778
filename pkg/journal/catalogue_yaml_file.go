package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// yamlFile walks over a parsed file and gathers the mistakes it meets, so that all of them are reported together.
type yamlFile struct {
	fsys     fs.FS
	name     string
	mistakes []yamlMistake
}

type yamlMistake struct {
	line int
	err  error
}

// yamlField is an entry of a mapping.
type yamlField struct {
	name  string
	key   ast.Node
	value ast.Node
}

// wrong notes a mistake at the node's line.
func (f *yamlFile) wrong(at ast.Node, format string, args ...any) {
	line := 1
	if at != nil && at.GetToken() != nil {
		line = at.GetToken().Position.Line
	}
	f.mistakes = append(f.mistakes, yamlMistake{line, fmt.Errorf(format, args...)})
}

// syntaxError notes why the file could not be parsed at all.
func (f *yamlFile) syntaxError(err error) {
	mistake := yamlMistake{line: 1, err: errors.New(firstLine(err))}
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		mistake.err = errors.New(syntax.GetMessage())
		if token := syntax.GetToken(); token != nil {
			mistake.line = token.Position.Line
		}
	}
	f.mistakes = append(f.mistakes, mistake)
}

// err is the mistakes in the order of their lines, or nil.
func (f *yamlFile) err() error {
	if len(f.mistakes) == 0 {
		return nil
	}
	slices.SortStableFunc(f.mistakes, func(a, b yamlMistake) int { return cmp.Compare(a.line, b.line) })
	errs := make([]error, len(f.mistakes))
	for i, m := range f.mistakes {
		errs[i] = fmt.Errorf("%s:%d: %w", f.name, m.line, m.err)
	}
	return fmt.Errorf("event catalogue: %w", errors.Join(errs...))
}

// fields answers the entries of a mapping in the order they are written. With known given, other names are mistakes.
func (f *yamlFile) fields(node ast.Node, what string, known ...string) []yamlField {
	mapping, ok := node.(ast.MapNode)
	if !ok {
		f.wrong(node, "%s must be a mapping of names to values", what)
		return nil
	}
	var fields []yamlField
	for entry := mapping.MapRange(); entry.Next(); {
		field := yamlField{name: entry.Key().GetToken().Value, key: entry.Key(), value: entry.Value()}
		if len(known) > 0 && !slices.Contains(known, field.name) {
			f.wrong(field.key, "%s has no field %s: it may have %s", what, feed.Shortened(field.name), strings.Join(known, ", "))
			continue
		}
		fields = append(fields, field)
	}
	return fields
}

// items answers the entries of a list.
func (f *yamlFile) items(field yamlField) []ast.Node {
	list, ok := field.value.(*ast.SequenceNode)
	if !ok {
		f.wrong(field.key, "%s must be a list", field.name)
		return nil
	}
	return list.Values
}

// text answers the string that a field holds.
func (f *yamlFile) text(field yamlField) (string, bool) {
	switch node := field.value.(type) {
	case *ast.StringNode:
		return node.Value, true
	case *ast.LiteralNode:
		return node.Value.Value, true
	default:
		f.wrong(field.key, "%s must be a string", field.name)
		return "", false
	}
}

// texts answers the strings of a list.
func (f *yamlFile) texts(field yamlField) []string {
	var texts []string
	for _, item := range f.items(field) {
		if text, ok := f.text(yamlField{"each item of " + field.name, item, item}); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

func isEmpty(node ast.Node) bool {
	_, null := node.(*ast.NullNode)
	return node == nil || null
}

// firstLine cuts the excerpt of the source that the YAML package adds to its messages.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
