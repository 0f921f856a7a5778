package cli

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// The exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1 // it was tried and did not work
	ExitUsage       = 2 // the command line, or a variable it depends on, makes no sense
	ExitUnavailable = 8 // the database could not be reached: trying again later may help
)

// UsageError is a command line that makes no sense.
type UsageError struct{ Err error }

// Error answers what is wrong with the command line.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap answers Err.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef makes a [UsageError].
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// UnavailableError is a database that could not be reached.
type UnavailableError struct{ Err error }

// Error answers what came instead of the database.
func (e *UnavailableError) Error() string { return "database unavailable: " + e.Err.Error() }

// Unwrap answers Err.
func (e *UnavailableError) Unwrap() error { return e.Err }

// ExitCode answers the code that a command ends with after err.
func ExitCode(err error) int {
	var (
		usage       *UsageError
		unavailable *UnavailableError
		connect     *pgconn.ConnectError
	)
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &unavailable), errors.As(err, &connect):
		return ExitUnavailable
	default:
		return ExitFailed
	}
}
