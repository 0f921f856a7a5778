package feed

import (
	"bytes"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// ErasedKey stands in acts on events for a key that has been erased with them.
const ErasedKey = "erased"

// ClosedError is why the sealed fields of an event do not open. Who does not open them can use the event.
type ClosedError struct{ Err error }

func (e *ClosedError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ClosedError) Unwrap() error { return e.Err }

// WithoutSealed returns a copy of an event whose payload lacks sealed fields.
func WithoutSealed(e event.Event) event.Event {
	return sealedAs(e, nil)
}

// SealedAs returns a copy of an event whose payload has a text in the place of each sealed field.
func SealedAs(e event.Event, text string) event.Event {
	value, _ := json.Marshal(text) // of a text
	return sealedAs(e, value)
}

func sealedAs(e event.Event, value json.RawMessage) event.Event {
	if payload, some := replaceSealed(e.Payload, value); some {
		e.Payload = payload
		ForgetDecoded(&e)
	}
	return e
}

// replaceSealed returns a document with another value in the place of each sealed field; nil: without them.
func replaceSealed(document, by json.RawMessage) (rest json.RawMessage, some bool) {
	var fields map[string]json.RawMessage
	var list []json.RawMessage
	if !bytes.Contains(document, []byte(`"$sealed"`)) {
		return document, false
	}
	if json.Unmarshal(document, &list) == nil {
		kept := list[:0]
		for _, value := range list {
			if !IsSealed(value) {
				inner, _ := replaceSealed(value, by)
				kept = append(kept, inner)
			} else if by != nil {
				kept = append(kept, by)
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
			if some = true; by == nil {
				delete(fields, name)
			} else {
				fields[name] = by
			}
		} else if inner, within := replaceSealed(value, by); within {
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
