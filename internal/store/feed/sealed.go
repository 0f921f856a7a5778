package feed

import (
	"bytes"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// ClosedError is why the sealed fields of an event do not open. Who does not open them can use the event.
type ClosedError struct{ Err error }

func (e *ClosedError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ClosedError) Unwrap() error { return e.Err }

// WithoutSealed returns a copy of an event whose payload lacks sealed fields.
func WithoutSealed(e event.Event) event.Event {
	if payload, some := withoutSealed(e.Payload); some {
		e.Payload = payload
		ForgetDecoded(&e)
	}
	return e
}

func withoutSealed(document json.RawMessage) (rest json.RawMessage, some bool) {
	var fields map[string]json.RawMessage
	var list []json.RawMessage
	if !bytes.Contains(document, []byte(`"$sealed"`)) {
		return document, false
	}
	if json.Unmarshal(document, &list) == nil {
		kept := list[:0]
		for _, value := range list {
			if !IsSealed(value) {
				inner, _ := withoutSealed(value)
				kept = append(kept, inner)
			}
		}
		document, _ = json.Marshal(kept) // of valid documents
		return document, true
	}
	if json.Unmarshal(document, &fields) != nil {
		return document, false
	}
	for name, value := range fields {
		if IsSealed(value) {
			delete(fields, name)
			some = true
		} else if inner, within := withoutSealed(value); within {
			fields[name], some = inner, true
		}
	}
	if some {
		document, _ = json.Marshal(fields) // of valid documents
	}
	return document, some
}

// IsSealed reports whether the value of a field is sealed.
func IsSealed(value json.RawMessage) bool {
	var fields map[string]string
	return json.Unmarshal(value, &fields) == nil && len(fields) == 2 && fields["$sealed"] != "" &&
		uuid.Validate(fields["key"]) == nil
}
