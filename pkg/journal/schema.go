package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/text"
)

// compileSchema compiles a JSON Schema, draft 2020-12 unless its $schema names another, and asserts
// "format". References resolve only within the schema and to the drafts' metaschemas: no files, no
// network.
func compileSchema(eventType string, source json.RawMessage) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	location := "event:///" + url.PathEscape(eventType)
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
		return nil, errors.New(describeBreach(breach))
	case err != nil:
		return nil, err
	}
	return compiled, nil
}

// noLoader refuses references out of a schema.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("schemas are never loaded from elsewhere: copy the definition into $defs and refer to it as " +
		"#/$defs/name")
}

// checkSchema returns what is wrong with a payload, or "".
func (t *catalogued) checkSchema(payload json.RawMessage) (reason string) {
	if t.schema == nil {
		return ""
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return "is not valid JSON"
	}
	err = t.schema.Validate(document)
	switch breach, ok := errors.AsType[*jsonschema.ValidationError](err); {
	case ok:
		return fmt.Sprintf("breaks the schema of %s: %s", t.Name, describeBreach(breach))
	case err != nil:
		return fmt.Sprintf("breaks the schema of %s: %v", t.Name, err)
	}
	return ""
}

// describeBreach names the first three places at fault, and never a value found there.
func describeBreach(breach *jsonschema.ValidationError) string {
	const most = 3
	leaves := breachLeaves(breach, nil)
	var said []string
	for _, leaf := range leaves[:min(len(leaves), most)] {
		at := "the document"
		if len(leaf.InstanceLocation) > 0 {
			at = "/" + strings.Join(leaf.InstanceLocation, "/")
		}
		said = append(said, at+" "+describeKind(leaf.ErrorKind))
	}
	if more := len(leaves) - len(said); more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(said, "; ")
}

// breachLeaves collects the errors that have no causes. For anyOf and oneOf it reports only that
// nothing matched: the errors of every branch would bury the rest.
func breachLeaves(
	breach *jsonschema.ValidationError, leaves []*jsonschema.ValidationError,
) []*jsonschema.ValidationError {
	switch breach.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		return append(leaves, breach)
	}
	if len(breach.Causes) == 0 {
		return append(leaves, breach)
	}
	for _, cause := range breach.Causes {
		leaves = breachLeaves(cause, leaves)
	}
	return leaves
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
