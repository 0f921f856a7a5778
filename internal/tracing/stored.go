package tracing

import (
	"bytes"
	"encoding/json"
	"strings"
)

// The keys of metadata that carry a trace context, see https://www.w3.org/TR/trace-context/.
const (
	parentKey = "traceparent"
	stateKey  = "tracestate"
)

// Stored answers what metadata says under traceparent and tracestate, unless a header could not carry it.
func Stored(metadata []byte) (traceparent, tracestate string) {
	if !bytes.Contains(metadata, []byte(`"`+parentKey+`"`)) {
		return "", ""
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(metadata, &fields) != nil {
		return "", ""
	}
	text := func(name string, limit int) (s string) {
		if json.Unmarshal(fields[name], &s) != nil || len(s) > limit ||
			strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
			return ""
		}
		return s
	}
	return text(parentKey, 128), text(stateKey, 512)
}
