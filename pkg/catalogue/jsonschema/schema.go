package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/text"
)

// Schema is a compiled JSON Schema, for the Schema of a catalogue.EventType. It is safe for concurrent use.
type Schema struct {
	source   string
	compiled *jsonschema.Schema
}

// Compile compiles a JSON Schema. The error names the place at fault.
func Compile(source string) (*Schema, error) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(source))
	if err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	const location = "event:///schema"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	compiler.AssertFormat()
	if err := compiler.AddResource(location, document); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(location)
	var invalid *jsonschema.SchemaValidationError
	var breach *jsonschema.ValidationError
	switch {
	case errors.As(err, &invalid) && errors.As(invalid.Err, &breach):
		return nil, errors.New(describe(breach))
	case err != nil:
		return nil, err
	}
	return &Schema{source, compiled}, nil
}

// MustCompile is [Compile] for a schema in the program's source. It panics if that is faulty.
func MustCompile(source string) *Schema {
	s, err := Compile(source)
	if err != nil {
		panic(fmt.Sprintf("jsonschema: %v", err))
	}
	return s
}

// noLoader refuses references out of a schema.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("schemas are never loaded from elsewhere: copy the definition into $defs and refer to it as " +
		"#/$defs/name")
}

// String returns the schema as it was given.
func (s *Schema) String() string { return s.source }

// Check returns what is wrong with a payload: the first three places and the rules that they break, never a
// value found there. nil: nothing.
func (s *Schema) Check(payload json.RawMessage) error {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return errors.New("it is not valid JSON")
	}
	err = s.compiled.Validate(document)
	if breach, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return errors.New(describe(breach))
	}
	return err
}

// describe names the first three places at fault, and never a value found there.
func describe(breach *jsonschema.ValidationError) string {
	const most = 3
	found := leaves(breach, nil)
	var said []string
	for _, leaf := range found[:min(len(found), most)] {
		at := "the document"
		if len(leaf.InstanceLocation) > 0 {
			at = "/" + strings.Join(leaf.InstanceLocation, "/")
		}
		said = append(said, at+" "+describeKind(leaf.ErrorKind))
	}
	if more := len(found) - len(said); more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(said, "; ")
}

// leaves collects the errors that have no causes. For anyOf and oneOf it reports only that
// nothing matched: the errors of every branch would bury the rest.
func leaves(breach *jsonschema.ValidationError, found []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch breach.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		return append(found, breach)
	}
	if len(breach.Causes) == 0 {
		return append(found, breach)
	}
	for _, cause := range breach.Causes {
		found = leaves(cause, found)
	}
	return found
}

func describeKind(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, is %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Required:
		return "lacks " + strings.Join(k.Missing, ", ")
	case *kind.AdditionalProperties:
		names := slice.Of(k.Properties, text.Shortened)
		return "has unknown fields " + strings.Join(names[:min(len(names), 3)], ", ")
	default:
		return "breaks the rule " + strings.Join(k.KeywordPath(), "/")
	}
}
