package catalogue

import (
	"encoding/json"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// writtenType is an event type as a file of package yamlfile has it.
type writtenType struct {
	Version  int              `json:"version,omitempty"`
	Intent   event.Intent     `json:"intent,omitempty"`
	Aliases  []string         `json:"aliases,omitempty"`
	Upcast   map[int]Upcaster `json:"upcast,omitempty"`
	Schema   json.RawMessage  `json:"schema,omitempty"`
	Subject  []string         `json:"subject,omitempty"`
	Personal []string         `json:"personal,omitempty"`
}

// MarshalJSON returns the catalogue as a file of package yamlfile, whose YAML is a superset of JSON. What a file
// cannot have is an error: an upcaster made by [Convert], and a Schema whose text is not JSON. A [Sealer] is not in
// it.
func (c *Catalogue) MarshalJSON() ([]byte, error) {
	types := map[string]json.RawMessage{}
	for _, t := range c.all() {
		w := writtenType{
			Version: t.given.Version, Intent: t.given.Intent, Aliases: t.given.Aliases, Upcast: t.given.Upcast,
			Subject: t.given.Subject, Personal: t.given.Personal,
		}
		if t.Schema != nil {
			w.Schema = json.RawMessage(t.Schema.String())
		}
		var err error
		if types[t.Name], err = json.Marshal(w); err != nil {
			return nil, fmt.Errorf("event type %s: %w", text.Shortened(t.Name), err)
		}
	}
	unknown := "accept"
	if c != nil && c.refuseUnknown {
		unknown = "refuse"
	}
	return json.Marshal(struct {
		UnknownTypes string                     `json:"unknown_types"`
		Types        map[string]json.RawMessage `json:"types"`
	}{unknown, types})
}
