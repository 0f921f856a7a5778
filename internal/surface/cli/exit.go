package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1  // it was tried and did not work
	ExitUsage       = 2  // the command line, or a variable it depends on, makes no sense
	ExitDeclined    = 3  // a confirmation was refused, or could not be asked for
	ExitConflict    = 5  // another act was quicker, or things are not as the command line says
	ExitPartial     = 6  // a part of it worked, and what did not is named
	ExitDifferences = 7  // it worked and found differences
	ExitWarnings    = 9  // status: there are warnings, and nothing that is critical
	ExitCritical    = 10 // status: something is critical
	ExitUnavailable = 8  // the database could not be reached: trying again later may help
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

// ExitError is an error that ends the command with a code of its own.
type ExitError struct {
	Code int // one of the exit codes
	Err  error
}

// Error answers what happened.
func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap answers Err.
func (e *ExitError) Unwrap() error { return e.Err }

// Exitf makes an [ExitError]. The format may wrap an error.
func Exitf(code int, format string, args ...any) error {
	return &ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}

// hintedError is an error with the command line to type next, which [Run] writes on a line of its own.
type hintedError struct {
	error
	next string
}

func (e *hintedError) Unwrap() error { return e.error }

// Next answers what to type next. Errors of other packages may have it too.
func (e *hintedError) Next() string { return e.next }

// Hint adds to err what to type next. It answers nil for nil.
func Hint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &hintedError{err, fmt.Sprintf(format, args...)}
}

// ExitCode answers the code that a command ends with after err.
func ExitCode(err error) int {
	var (
		usage *UsageError
		coded *ExitError
	)
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &coded):
		return coded.Code
	case Unavailable(err):
		return ExitUnavailable
	default:
		return ExitFailed
	}
}

// Unavailable says whether err means that the database cannot be reached, or was lost on the way.
func Unavailable(err error) bool {
	var (
		unavailable *UnavailableError
		connect     *pgconn.ConnectError
		network     *net.OpError
		server      *pgconn.PgError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &unavailable), errors.As(err, &connect), errors.As(err, &network),
		errors.Is(err, io.ErrUnexpectedEOF):
		return true
	case errors.As(err, &server):
		// Shutting down, crashed, starting up, too many connections, connection lost.
		return strings.HasPrefix(server.Code, "57P0") || server.Code == "53300" || strings.HasPrefix(server.Code, "08")
	default:
		return false
	}
}
