package journal

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// LoadCatalogue reads a catalogue from a YAML file, for instance LoadCatalogue(os.DirFS("config"),
// "catalogue.yaml"). docs/guides/catalogue.md describes the format. Schemas are written in the file or
// named by a path beside it in fsys. The error reports all mistakes, each with its line.
func LoadCatalogue(fsys fs.FS, name string) (*Catalogue, error) {
	content, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("event catalogue: %w", err)
	}
	f := &yamlFile{fsys: fsys, name: name}
	parsed, err := parser.ParseBytes(content, 0)
	if err != nil {
		f.syntaxError(err)
		return nil, f.err()
	}
	c := &Catalogue{types: map[string]*catalogued{}}
	if len(parsed.Docs) > 1 {
		f.wrong(parsed.Docs[1].Body, "a second document begins here: a catalogue is one document")
	}
	if len(parsed.Docs) > 0 && !isEmpty(parsed.Docs[0].Body) {
		f.catalogue(parsed.Docs[0].Body, c)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// catalogue reads the document into c.
func (f *yamlFile) catalogue(root ast.Node, c *Catalogue) {
	for _, field := range f.fields(root, "the catalogue", "unknown_types", "types") {
		switch field.name {
		case "unknown_types":
			switch policy, _ := f.text(field); policy {
			case "accept":
			case "refuse":
				c.refuseUnknown = true
			default:
				f.wrong(field.value, "unknown_types must be accept or refuse")
			}
		case "types":
			for _, entry := range f.fields(field.value, "types") {
				f.eventType(entry, c)
			}
		}
	}
}

// eventType reads one entry of types into c.
func (f *yamlFile) eventType(entry yamlField, c *Catalogue) {
	t := EventType{Name: entry.name}
	lines := map[string]ast.Node{"name": entry.key}
	before := len(f.mistakes)
	if !isEmpty(entry.value) {
		for _, field := range f.fields(entry.value, "type "+feed.Shortened(t.Name), "version", "intent", "aliases", "upcast",
			"schema") {
			lines[field.name] = field.key
			switch field.name {
			case "version":
				t.Version = f.version(field)
			case "intent":
				intent, _ := f.text(field)
				t.Intent = Intent(intent)
			case "aliases":
				t.Aliases = f.texts(field)
			case "upcast":
				t.Upcast = f.upcasters(field.value)
			case "schema":
				t.Schema = f.schema(field)
			}
		}
	}
	misread := len(f.mistakes) > before
	for _, mistake := range c.add(&t) {
		// What could not be read is left out of t, which must not be reported a second time as missing.
		if misread && mistake.field == "upcast" {
			continue
		}
		f.wrong(lines[mistake.field], "event type %s: %w", feed.Shortened(t.Name), mistake.err)
	}
}

func (f *yamlFile) version(field yamlField) int {
	version, err := strconv.Atoi(field.value.GetToken().Value)
	if _, isInteger := field.value.(*ast.IntegerNode); !isInteger || err != nil || version < 1 {
		f.wrong(field.value, "version must be a whole number from 1")
		return 0
	}
	return version
}

// schema reads a schema written in place, or the name of a file beside the catalogue.
func (f *yamlFile) schema(field yamlField) json.RawMessage {
	if _, inPlace := field.value.(*ast.MappingNode); inPlace {
		return f.json(field.value)
	}
	name, ok := f.text(field)
	if !ok {
		return nil
	}
	content, err := fs.ReadFile(f.fsys, path.Join(path.Dir(f.name), name))
	if err != nil {
		f.wrong(field.value, "schema: %w", err)
		return nil
	}
	return content
}

// json answers the node's value as JSON.
func (f *yamlFile) json(node ast.Node) json.RawMessage {
	var value any
	if err := yaml.NodeToValue(node, &value); err != nil {
		f.wrong(node, "%s", firstLine(err))
		return nil
	}
	encoded, err := encodeJSON(value)
	if err != nil {
		f.wrong(node, "it cannot be written as JSON: %w", err)
	}
	return encoded
}

// upcasters reads the steps of each version.
func (f *yamlFile) upcasters(node ast.Node) map[int]Upcaster {
	upcasters := map[int]Upcaster{}
	for _, field := range f.fields(node, "upcast") {
		from, err := strconv.Atoi(field.name)
		if err != nil {
			f.wrong(field.key, "upcast is keyed by the version that a step starts from, not by %s", feed.Shortened(field.name))
			continue
		}
		upcasters[from] = inOrder(f.edits(field)).upcast
	}
	return upcasters
}

// edits reads the list of steps from one version to the next.
func (f *yamlFile) edits(field yamlField) (edits []edit) {
	for _, step := range f.items(field) {
		for _, verb := range f.fields(step, "a step", "rename", "move", "default", "remove") {
			if verb.name == "remove" {
				e, err := removeEdit(f.texts(verb)...)
				edits = f.keep(edits, verb.key, e, err)
				continue
			}
			for _, change := range f.fields(verb.value, verb.name) {
				e, err := f.change(verb.name, change)
				edits = f.keep(edits, change.key, e, err)
			}
		}
	}
	return edits
}

func (f *yamlFile) change(verb string, change yamlField) (edit, error) {
	if verb == "default" {
		return defaultEdit(change.name, f.json(change.value))
	}
	to, ok := f.text(change)
	switch {
	case !ok:
		return nil, nil // reported already
	case verb == "rename":
		return renameEdit(change.name, to)
	default:
		return moveEdit(change.name, to)
	}
}

func (f *yamlFile) keep(edits []edit, at ast.Node, e edit, err error) []edit {
	switch {
	case err != nil:
		f.wrong(at, "%w", err)
		return edits
	case e == nil:
		return edits
	default:
		return append(edits, e)
	}
}
