package feed

import (
	"errors"
	"fmt"
)

// DecodeError is returned by [Decode] for a payload that does not fit the type asked for.
type DecodeError struct {
	Type string // the event's
	Err  error  // what encoding/json says; it may quote the payload
}

func (e *DecodeError) Error() string { return fmt.Sprintf("decode payload of %s: %v", e.Type, e.Err) }

// Unwrap answers Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// ErrNotFound is returned by [Get] and [Find].
var ErrNotFound = errors.New("no such event")

// ErrInvalidQuery says that no event can have a part of a query. The text names the part, the reason and the remedy.
var ErrInvalidQuery = errors.New("invalid query")
