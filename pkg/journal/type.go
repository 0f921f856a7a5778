package journal

import (
	"encoding/json"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// Type is the name of an event type, with the Go type T of its payload. Declared once, it makes events, decodes them,
// and gives projector.On the payload's type:
//
//	const Wounded journal.Type[Wound] = "hero_wounded"
//
// string(Wounded) is the name where one is asked for, as in a catalogue.
type Type[T any] string

// New makes an event of the type. The caller sets what else it needs, such as tags. A payload that encoding/json cannot
// encode is refused when the event is appended, as an [InvalidEventError].
func (t Type[T]) New(payload T) Event {
	e := Event{Type: string(t)}
	var err error
	if e.Payload, err = json.Marshal(payload); err != nil {
		feed.Refuse(&e, err)
	}
	return e
}

// Decode decodes the payload of an event of the type, as [Decode] does. Of another type it answers a [DecodeError].
func (t Type[T]) Decode(e Event) (payload T, err error) {
	if e.Type != string(t) {
		return payload, &DecodeError{Type: e.Type, Err: fmt.Errorf("it is no event of type %s", t)}
	}
	return Decode[T](e)
}
