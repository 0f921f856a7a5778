package sqlfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Error is a mistake in an SQL file. [Load], [LoadDir] and the Check of a loaded projection join
// one for each mistake; [errors.As] finds the first.
type Error struct {
	File   string // the name it was loaded by
	Line   int    // from 1; 0 for the file as a whole
	Reason string
	Err    error // from Postgres or the file system; nil if reading the file found the mistake
}

// Error returns "file:line: reason".
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

type mistakes struct {
	file string
	list []*Error
}

func (e *mistakes) add(line int, format string, args ...any) {
	e.list = append(e.list, &Error{File: e.file, Line: line, Reason: fmt.Sprintf(format, args...)})
}

// join returns all mistakes in the order of their lines, or nil.
func (e *mistakes) join() error {
	slices.SortStableFunc(e.list, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, len(e.list))
	for i, err := range e.list {
		errs[i] = err
	}
	return errors.Join(errs...)
}
