package projector

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// FileError is a mistake in an SQL file. [LoadFile], [LoadDir] and the Check of what they return join one for each mistake they find;
// [errors.As] finds the first.
type FileError struct {
	File   string // the name it was loaded by
	Line   int    // from 1; 0 if the file as a whole is meant
	Reason string
	Err    error // what Postgres or the file system said; nil if the mistake was found by reading the file
}

// Error answers "file:line: reason".
func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// Unwrap answers Err.
func (e *FileError) Unwrap() error { return e.Err }

// fileErrors collects the mistakes of one file.
type fileErrors struct {
	file string
	list []*FileError
}

func (e *fileErrors) add(line int, format string, args ...any) {
	e.list = append(e.list, &FileError{File: e.file, Line: line, Reason: fmt.Sprintf(format, args...)})
}

// join answers all mistakes in the order of their lines, or nil.
func (e *fileErrors) join() error {
	slices.SortStableFunc(e.list, func(a, b *FileError) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, len(e.list))
	for i, err := range e.list {
		errs[i] = err
	}
	return errors.Join(errs...)
}
