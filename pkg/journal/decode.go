package journal

import (
	"encoding/json"
	"fmt"
)

// Decode decodes an event's payload. Copies of an event that was read from the journal share the result for the last T asked for:
// several projections that decode the same type pay once, and must not change what they get.
func Decode[T any](e Event) (T, error) {
	if e.decoded != nil {
		if box, ok := e.decoded.Load().(decoded); ok {
			if v, ok := box.value.(T); ok {
				return v, nil
			}
		}
	}
	var v T
	if len(e.Payload) > 0 {
		if err := json.Unmarshal(e.Payload, &v); err != nil {
			return v, fmt.Errorf("decode payload of %s: %w", e.Type, err)
		}
	}
	if e.decoded != nil {
		e.decoded.Store(decoded{v})
	}
	return v, nil
}

// decoded gives atomic.Value the one concrete type it wants.
type decoded struct{ value any }
