package feed

import (
	"bytes"
	"encoding/json"

	"github.com/tidemark-go/tidemark/internal/eventstate"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Notice is the type of the event that tells consumers of erased ones. Appends of it are refused.
const Notice = "events_erased"

// ErasedBy returns the number of the last erasure that has taken something of an event, "" if none has.
func ErasedBy(e *event.Event) string {
	if !bytes.Contains(e.Metadata, []byte(`"$erased":`)) {
		return ""
	}
	var metadata struct {
		Erased json.RawMessage `json:"$erased"`
	}
	_ = json.Unmarshal(e.Metadata, &metadata)
	return string(metadata.Erased)
}

// Open gives an event a payload whose sealed fields are open, and keeps the stored one. gone: the key
// of a field is deleted, so that the field is absent.
func Open(e *event.Event, payload, stored json.RawMessage, gone bool) {
	e.Payload, state(e).Opened = payload, &eventstate.Opened{Stored: stored, Gone: gone}
	ForgetDecoded(e)
}

// Stored returns the payload with sealed fields as they are in the journal.
func Stored(e *event.Event) json.RawMessage {
	if opened := state(e).Opened; opened != nil {
		return opened.Stored
	}
	return e.Payload
}

// Close undoes [Open] for one copy of an event.
func Close(e *event.Event) {
	if s := state(e); s.Opened != nil {
		e.Payload, s.Opened = s.Opened.Stored, nil
		ForgetDecoded(e)
	}
}

// Opened reports whether [Open] was called.
func Opened(e *event.Event) bool { return state(e).Opened != nil }

// Refused returns why an append refuses the event, or nil.
func Refused(e *event.Event) error { return state(e).Refused }

// Archived reports whether an event is only a stub.
func Archived(e *event.Event) bool { return state(e).Archived }

// ForgetDecoded drops the decoded payload of an event whose payload has changed, or prepares an event that
// was not read from the database.
func ForgetDecoded(e *event.Event) { state(e).Decoded = new(eventstate.Decoded) }

func state(e *event.Event) *eventstate.State { return eventstate.Of(e) }
