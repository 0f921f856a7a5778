package event

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/tidemark-go/tidemark/internal/eventstate"
)

// Decode decodes an event's payload. Copies of an event read from the journal share the result for
// the last T requested, so several projections decode a type once. They must not change the value.
// A payload that does not fit is a [*DecodeError]; one that cannot be read has the error of
// [Event.Unreadable].
func Decode[T any](e Event) (T, error) {
	if err := e.Unreadable(); err != nil {
		return *new(T), err
	}
	if v, ok := e.state.Decoded.Get().(*T); ok {
		return *v, nil
	}
	v := new(T)
	if len(e.Payload) > 0 && (eventstate.Quick == nil || !eventstate.Quick(e.Payload, v)) {
		v = new(T)
		if err := json.Unmarshal(e.Payload, v); err != nil {
			return *v, &DecodeError{Type: e.Type, Err: err}
		}
	}
	e.state.Decoded.Set(v)
	return *v, nil
}

// DecodeError is returned by [Decode] for a payload that does not fit the requested type.
type DecodeError struct {
	Type string // the event's
	Err  error  // of encoding/json; it may quote the payload
}

// Error names the type and the reason.
func (e *DecodeError) Error() string { return fmt.Sprintf("decode payload of %s: %v", e.Type, e.Err) }

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// Type is the name of an event type, with the Go type T of its payload. It makes events, decodes
// them, and gives event.On and projection.Handle the payload's type:
//
//	const Wounded event.Type[Wound] = "hero_wounded"
//
// A catalogue has it as catalogue.EventType{Type: Wounded}.
type Type[T any] string

// Named is a [Type] of any payload.
type Named interface {
	Name() string          // the name of the event type
	Payload() reflect.Type // the Go type of its payloads
}

// Name returns the name.
func (t Type[T]) Name() string { return string(t) }

// Payload returns the Go type of the payloads.
func (t Type[T]) Payload() reflect.Type { return reflect.TypeFor[T]() }

// New returns an event of the type. The caller sets its other fields, such as tags. Append refuses
// a payload that encoding/json cannot encode, with a journal.InvalidEventError.
func (t Type[T]) New(payload T) Event {
	e := Event{Type: string(t)}
	var err error
	if e.Payload, err = json.Marshal(payload); err != nil {
		e.state.Refused = err
	}
	return e
}

// Decode is [Decode] for an event of the type. For an event of another type it returns a [*DecodeError].
func (t Type[T]) Decode(e Event) (payload T, err error) {
	if e.Type != string(t) {
		return payload, &DecodeError{Type: e.Type, Err: fmt.Errorf("it is not an event of type %s", t)}
	}
	return Decode[T](e)
}
