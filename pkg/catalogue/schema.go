package catalogue

import "encoding/json"

// Schema is what payloads of an event type must be. Package jsonschema compiles one from a JSON Schema. It is
// safe for concurrent use.
type Schema interface {
	// Check returns what is wrong with a payload, a JSON object; nil: nothing. The text follows "breaks the
	// schema of …: ", and quotes no value of the payload.
	Check(payload json.RawMessage) error
	// String returns the schema as it was written, by which [Catalogue.Compare] tells two of them apart.
	String() string
}
