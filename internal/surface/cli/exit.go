package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/redact"
)

// The exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1  // failed
	ExitUsage       = 2  // invalid command line or variable
	ExitDeclined    = 3  // a confirmation was refused or could not be asked for
	ExitNothing     = 4  // nothing is there of what the command line names; erasures only
	ExitConflict    = 5  // another act came first, or the state is not as the command line says
	ExitPartial     = 6  // part of it worked; the output names the rest
	ExitDifferences = 7  // worked and found differences
	ExitReset       = 11 // a cursor is not of this journal; the next command goes on from the place that it names
	ExitWarnings    = 9  // status: warnings, nothing critical
	ExitCritical    = 10 // status: something is critical
	ExitUnavailable = 8  // database unreachable: retry later
)

// UsageError is an invalid command line.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a [UsageError].
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// UnavailableError is an error of a database that could not be reached.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return "database unavailable: " + e.Err.Error() }

func (e *UnavailableError) Unwrap() error { return e.Err }

// ExitError is an error with its own exit code.
type ExitError struct {
	Code int // one of the exit codes
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }

func (e *ExitError) Unwrap() error { return e.Err }

// Exitf returns an [ExitError]. The format may wrap an error.
func Exitf(code int, format string, args ...any) error {
	return &ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}

// hintedError is an error with the next command to run, which [Run] writes on its own line.
type hintedError struct {
	error
	next string
}

func (e *hintedError) Unwrap() error { return e.error }

// Next returns the next command. Errors of other packages can have this method too.
func (e *hintedError) Next() string { return e.next }

// Hint adds the next command to err. It returns nil for nil.
func Hint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &hintedError{err, fmt.Sprintf(format, args...)}
}

// ExitCode returns the exit code for err.
func ExitCode(err error) int {
	var usage *UsageError
	var coded *ExitError
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

// Unavailable reports whether the database could not be reached or the connection was lost.
func Unavailable(err error) bool {
	var unavailable *UnavailableError
	var connect *pgconn.ConnectError
	var network *net.OpError
	switch code := redact.SQLState(err); {
	case errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &network):
		return network.Op != "listen" // that is an address of the program's own
	case errors.As(err, &unavailable), errors.As(err, &connect),
		errors.Is(err, io.ErrUnexpectedEOF):
		return true
	default: // shutting down, crashed, starting up, too many connections, connection lost
		return strings.HasPrefix(code, "57P0") || code == "53300" || strings.HasPrefix(code, "08")
	}
}
