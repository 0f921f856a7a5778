package journal

import (
	"bytes"
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
	"github.com/tidemark-go/tidemark/pkg/event"
)

type catalogueFile struct {
	UnknownTypes string                   `yaml:"unknown_types"`
	Types        map[string]eventTypeYAML `yaml:"types"`
}

type eventTypeYAML struct {
	Version int                `yaml:"version"`
	Intent  event.Intent       `yaml:"intent"`
	Aliases []string           `yaml:"aliases"`
	Upcast  map[int][]stepYAML `yaml:"upcast"`
	Schema  any                `yaml:"schema"` // inline, or the name of a file

	Subject  []string `yaml:"subject"`
	Personal []string `yaml:"personal"`
}

type stepYAML struct {
	Rename  map[string]string `yaml:"rename"`
	Move    map[string]string `yaml:"move"`
	Default map[string]any    `yaml:"default"`
	Remove  []string          `yaml:"remove"`
}

// LoadCatalogue reads a catalogue from a YAML file; docs/guides/catalogue.md describes the format.
// Schemas are inline, or files in fsys named relative to this one. The error has the line of a
// syntax error, or all mistakes in the types.
func LoadCatalogue(fsys fs.FS, name string) (_ *Catalogue, err error) {
	defer inCatalogue(&err)
	content, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	var file catalogueFile
	decoder := yaml.NewDecoder(bytes.NewReader(bom.Trim(content)), yaml.Strict())
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s:%w", name, located(err))
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s has a second document: a catalogue is one document", name)
	}
	if !slices.Contains([]string{"", "accept", "refuse"}, file.UnknownTypes) {
		return nil, fmt.Errorf("%s: unknown_types must be accept or refuse", name)
	}
	var types []EventType
	var mistakes []error
	for _, t := range slices.Sorted(maps.Keys(file.Types)) {
		eventType, err := file.Types[t].eventType(t, fsys, path.Dir(name))
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("event type %s: %w", text.Shortened(t), err))
		}
		types = append(types, eventType)
	}
	if len(mistakes) > 0 {
		return nil, fmt.Errorf("%s: %w", name, errors.Join(mistakes...))
	}
	c, err := catalogueOf(types)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if file.UnknownTypes == "refuse" {
		c = c.RefuseUnknown()
	}
	return c, nil
}

// located removes the source excerpt from an error of the YAML package.
func located(err error) error {
	var known yaml.Error
	if !errors.As(err, &known) || known.GetToken() == nil {
		return err
	}
	return fmt.Errorf("%d: %s", known.GetToken().Position.Line, known.GetMessage())
}

func (y eventTypeYAML) eventType(name string, fsys fs.FS, folder string) (EventType, error) {
	t := EventType{
		Name: name, Aliases: y.Aliases, Version: y.Version, Intent: y.Intent, Upcast: map[int]Upcaster{},
		Subject: y.Subject, Personal: y.Personal, moves: map[int][]move{},
	}
	var errs []error
	for from, steps := range y.Upcast {
		edits, err := editsOf(steps)
		if err != nil {
			errs = append(errs, fmt.Errorf("upcast from version %d: %w", from, err))
		}
		t.Upcast[from], t.moves[from] = inOrder(edits).upcast, movesOf(steps)
	}
	var err error
	switch schema := y.Schema.(type) {
	case nil:
	case string:
		t.Schema, err = fs.ReadFile(fsys, path.Join(folder, schema))
		t.Schema = bom.Trim(t.Schema)
	default:
		t.Schema, err = encodeJSON(schema)
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("schema: %w", err))
	}
	return t, errors.Join(errs...)
}

// editsOf reads the steps of one version. Each renames, moves, sets and removes fields, sorted by name.
func editsOf(steps []stepYAML) (edits []edit, err error) {
	var errs []error
	add := func(e edit, err error) {
		edits, errs = append(edits, e), append(errs, err)
	}
	for _, step := range steps {
		for _, from := range slices.Sorted(maps.Keys(step.Rename)) {
			add(renameEdit(from, step.Rename[from]))
		}
		for _, from := range slices.Sorted(maps.Keys(step.Move)) {
			add(moveEdit(from, step.Move[from]))
		}
		for _, field := range slices.Sorted(maps.Keys(step.Default)) {
			add(defaultEdit(field, step.Default[field]))
		}
		add(removeEdit(step.Remove...))
	}
	return edits, errors.Join(errs...)
}

// movesOf returns the fields that steps rename and move, in the order of [editsOf].
func movesOf(steps []stepYAML) (moves []move) {
	for _, step := range steps {
		for _, from := range slices.Sorted(maps.Keys(step.Rename)) {
			moves = append(moves, move{from, renamed(from, step.Rename[from])})
		}
		for _, from := range slices.Sorted(maps.Keys(step.Move)) {
			moves = append(moves, move{from, step.Move[from]})
		}
	}
	return moves
}
