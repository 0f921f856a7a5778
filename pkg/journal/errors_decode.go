package journal

import "fmt"

// DecodeError is returned by [Decode] for a payload that does not fit the type asked for.
type DecodeError struct {
	Type string // the event's
	Err  error  // what encoding/json says; it may quote the payload
}

func (e *DecodeError) Error() string { return fmt.Sprintf("decode payload of %s: %v", e.Type, e.Err) }

// Unwrap answers Err.
func (e *DecodeError) Unwrap() error { return e.Err }
