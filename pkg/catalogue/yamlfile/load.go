package yamlfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/tidemark-go/tidemark/internal/bom"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/jsonschema"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// file is the format.
type file struct {
	UnknownTypes string               `yaml:"unknown_types"`
	Types        map[string]eventType `yaml:"types"`
}

type eventType struct {
	Version int            `yaml:"version"`
	Intent  event.Intent   `yaml:"intent"`
	Aliases []string       `yaml:"aliases"`
	Upcast  map[int][]step `yaml:"upcast"`
	Schema  any            `yaml:"schema"` // inline, or the name of a file

	Subject  []string `yaml:"subject"`
	Personal []string `yaml:"personal"`
}

type step struct {
	Rename  map[string]string `yaml:"rename"`
	Move    map[string]string `yaml:"move"`
	Default map[string]any    `yaml:"default"`
	Remove  []string          `yaml:"remove"`
}

// Load reads a catalogue from a file in fsys. Schemas are inline, or files named relative to this one. The
// error has the line of a syntax error, or all mistakes in the types.
func Load(fsys fs.FS, name string) (*catalogue.Catalogue, error) {
	types, err := load(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("event catalogue: %w", err)
	}
	return types, nil
}

func load(fsys fs.FS, name string) (*catalogue.Catalogue, error) {
	content, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	var f file
	decoder := yaml.NewDecoder(bytes.NewReader(bom.Trim(content)), yaml.Strict())
	if err := decoder.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s:%w", name, located(err))
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s has a second document: a catalogue is one document", name)
	}
	if !slices.Contains([]string{"", "accept", "refuse"}, f.UnknownTypes) {
		return nil, fmt.Errorf("%s: unknown_types must be accept or refuse", name)
	}
	types, err := f.catalogue(fsys, path.Dir(name))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if f.UnknownTypes == "refuse" {
		types = types.RefuseUnknown()
	}
	return types, nil
}

// located removes the source excerpt from an error of the YAML package.
func located(err error) error {
	var known yaml.Error
	if !errors.As(err, &known) || known.GetToken() == nil {
		return err
	}
	return fmt.Errorf("%d: %s", known.GetToken().Position.Line, known.GetMessage())
}

func (f *file) catalogue(fsys fs.FS, folder string) (*catalogue.Catalogue, error) {
	var all []catalogue.EventType
	var mistakes []error
	for _, name := range slices.Sorted(maps.Keys(f.Types)) {
		y := f.Types[name]
		t := catalogue.EventType{
			Name: name, Aliases: y.Aliases, Version: y.Version, Intent: y.Intent, Upcast: map[int]catalogue.Upcaster{},
			Subject: y.Subject, Personal: y.Personal,
		}
		for from, steps := range y.Upcast {
			t.Upcast[from] = upcaster(steps)
		}
		schema, err := y.schema(fsys, folder)
		switch {
		case err != nil:
			mistakes = append(mistakes, fmt.Errorf("event type %s: schema: %w", text.Shortened(name), err))
		case schema != nil:
			t.Schema = schema
		}
		all = append(all, t)
	}
	types, err := catalogue.New(all...)
	if err := errors.Join(append(mistakes, err)...); err != nil {
		return nil, err
	}
	return types, nil
}

// schema compiles the schema of a type; nil: it has none.
func (y *eventType) schema(fsys fs.FS, folder string) (*jsonschema.Schema, error) {
	var source []byte
	var err error
	switch schema := y.Schema.(type) {
	case nil:
		return nil, nil
	case string:
		source, err = fs.ReadFile(fsys, path.Join(folder, schema))
		source = bom.Trim(source)
	default:
		source, err = json.Marshal(schema)
	}
	if err != nil {
		return nil, err
	}
	return jsonschema.Compile(string(source))
}

// upcaster returns the steps of one version. Each renames, moves, sets and removes fields, sorted by name.
func upcaster(steps []step) catalogue.Upcaster {
	var all []catalogue.Upcaster
	for _, s := range steps {
		for _, from := range slices.Sorted(maps.Keys(s.Rename)) {
			all = append(all, catalogue.Rename(from, s.Rename[from]))
		}
		for _, from := range slices.Sorted(maps.Keys(s.Move)) {
			all = append(all, catalogue.Move(from, s.Move[from]))
		}
		for _, field := range slices.Sorted(maps.Keys(s.Default)) {
			all = append(all, catalogue.Default(field, s.Default[field]))
		}
		all = append(all, catalogue.Remove(s.Remove...))
	}
	return catalogue.Chain(all...)
}
