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

// ErrInvalidQuery is matched by every [*InvalidQueryError].
var ErrInvalidQuery = errors.New("invalid query")

// InvalidQueryError says which part of a query no event can have.
type InvalidQueryError struct {
	Item   int    // the item, from 0
	Field  string // "types" or "tags"
	Index  int    // the place in it, from 0
	Reason string // what is wrong with it, and what to do
}

// Error names the part, the reason and the remedy.
func (e *InvalidQueryError) Error() string {
	return fmt.Sprintf("query: items[%d].%s[%d] %s", e.Item, e.Field, e.Index, e.Reason)
}

// Is reports whether target is [ErrInvalidQuery].
func (e *InvalidQueryError) Is(target error) bool { return target == ErrInvalidQuery }
