// Package eventstate is what an event carries for the packages that read and append events. Its users
// see none of it.
package eventstate

import (
	"encoding/json"
	"sync"
)

// State is a part of each event.
type State struct {
	Unreadable bool  // Postgres could not return payload and metadata
	Archived   bool  // it is only a stub, whose version is 0
	Refused    error // why an append refuses it, or why it cannot be read

	Decoded *Decoded // the payload, decoded once for all copies of the event
	Opened  *Opened  // nil: the payload is as stored
}

// Opened is what is left of a payload whose sealed fields were opened.
type Opened struct {
	Stored json.RawMessage // with the fields sealed
	Gone   bool            // the key of one of them is deleted
}

// Of returns the state of an *event.Event, whose package sets the function.
var Of func(e any) *State //nolint:gochecknoglobals // the way to an unexported field of another package

// Quick decodes JSON as encoding/json does, but faster; false: use encoding/json. nil: programs without an engine do
// not link what it takes. internal/fastjson sets it.
var Quick func(data []byte, into any) bool //nolint:gochecknoglobals // see above

// Decoded holds a pointer to a decoded payload. A nil *Decoded holds nothing. It is safe for concurrent use.
type Decoded struct {
	mu    sync.Mutex
	value any
}

// Get returns what it holds, or nil.
func (d *Decoded) Get() any {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.value
}

// Set has it hold another value.
func (d *Decoded) Set(value any) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.value = value
}
