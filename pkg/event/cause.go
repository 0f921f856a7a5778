package event

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// CausationDepth returns how many processes led to the event, one reacting to the other.
func (e *Event) CausationDepth() int {
	depth, err := strconv.Atoi(e.metadataText("causation_depth"))
	if err != nil {
		return 0
	}
	return depth
}

// CorrelationID returns the metadata's correlation_id: the identity of the first cause, or "".
func (e *Event) CorrelationID() string { return e.metadataText("correlation_id") }

// CausationID returns the metadata's causation_id: the identity of the event's cause, or "".
func (e *Event) CausationID() string { return e.metadataText("causation_id") }

func (e *Event) metadataText(name string) (text string) {
	if !bytes.Contains(e.Metadata, []byte(`"`+name+`"`)) {
		return ""
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(e.Metadata, &fields) != nil || json.Unmarshal(fields[name], &text) != nil {
		return ""
	}
	return text
}
