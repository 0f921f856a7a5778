package failure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Class is projector.Class.
type Class string

// The classes. Package projector explains them.
const (
	ClassInfrastructure Class = "infrastructure"
	ClassTransient      Class = "transient"
	ClassPermanent      Class = "permanent"
	ClassLock           Class = "lock"
)

// Classes returns all classes.
func Classes() []Class {
	return []Class{ClassInfrastructure, ClassTransient, ClassPermanent, ClassLock}
}

// Waits reports whether failures of a class are no event's fault: the projection waits at the event, and
// counts no attempt.
func Waits(c Class) bool { return c == ClassInfrastructure || c == ClassLock }

// Classifier returns the class of a failure of one projection, or "".
type Classifier func(err error) Class

// Classify is projector.Classify.
func Classify(err error) Class {
	var own interface{ FailureClass() Class }
	if errors.As(err, &own) {
		return own.FailureClass()
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return classifyState(pgErr.Code)
	}
	if IsDecoding(err) {
		return ClassPermanent
	}
	if isEncoding(err) {
		return ClassInfrastructure
	}
	return ClassTransient
}

// isEncoding reports whether a connection was refused because it would change text.
func isEncoding(err error) bool {
	_, refused := errors.AsType[*event.EncodingError](err)
	return refused
}

func classifyState(state string) Class {
	switch state {
	case "55P03", "40P01":
		return ClassLock
	case "25006", "25P03":
		return ClassInfrastructure
	case "53400": // a limit such as temp_file_limit, which the same event meets again
		return ClassTransient
	case "42P01", "42703", "42883", "42704", "42501":
		return ClassTransient
	}
	if len(state) < 2 {
		return ClassTransient
	}
	switch state[:2] {
	case "40", "53", "57", "58":
		return ClassInfrastructure
	case "21", "22", "23", "42", "44", "54":
		return ClassPermanent
	}
	return ClassTransient
}

// elsewhere reports whether an error is our database's fault if a request of ours gets it. On a living
// connection a projection's statement has it from another server, or from a limit.
func elsewhere(err error) bool {
	state := redact.SQLState(err)
	return state == "53400" || len(state) == 5 && slices.Contains([]string{"08", "28", "3D"}, state[:2])
}

// IsDecoding reports whether something could not be decoded.
func IsDecoding(err error) bool {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	var decode *event.DecodeError
	return errors.As(err, &decode) || errors.As(err, &syntax) || errors.As(err, &mismatch) ||
		errors.Is(err, journal.ErrUnknownVersion)
}

// IsInfrastructure reports whether an error of a request is the database's or the network's: of
// [ClassInfrastructure] or [ClassLock], a network error, an ended context, the end of a connection
// (io.EOF), or what pgx has not sent. A projection's own code can return any of these.
func IsInfrastructure(err error) bool {
	if err == nil {
		return false
	}
	var own interface{ FailureClass() Class }
	var pgErr *pgconn.PgError
	if errors.As(err, &own) || errors.As(err, &pgErr) {
		class := Classify(err)
		return Waits(class) || own == nil && elsewhere(err)
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return isEncoding(err) || errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || pgconn.SafeToRetry(err)
}

// Permanent is projector.Permanent.
func Permanent(err error) error {
	if err == nil || IsInfrastructure(err) {
		return err
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string       { return e.err.Error() }
func (e *permanentError) Unwrap() error       { return e.err }
func (e *permanentError) FailureClass() Class { return ClassPermanent }

// BrokenError is any error on a broken connection.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return e.Err.Error() }
func (e *BrokenError) Unwrap() error { return e.Err }

// FailureClass returns [ClassInfrastructure]: no event is at fault.
func (e *BrokenError) FailureClass() Class { return ClassInfrastructure }

// Undecodable is the error of an event that cannot be brought to the current version of its type.
type Undecodable struct{ Err error }

func (e *Undecodable) Error() string { return e.Err.Error() }
func (e *Undecodable) Unwrap() error { return e.Err }

// FailureClass returns [ClassPermanent]: the event will not be readable the next time.
func (e *Undecodable) FailureClass() Class { return ClassPermanent }

// FailureCode returns the code that is stored.
func (e *Undecodable) FailureCode() string {
	if errors.Is(e.Err, journal.ErrBrokenKey) {
		return CodeKey
	}
	return CodeDecode
}

// Unreadable is the error of an event that could not be read: [Undecodable], unless it may be readable
// later, because it is archived or a wrapping key is out of reach.
func Unreadable(err error) error {
	switch {
	case errors.Is(err, event.ErrArchived):
		return err
	case errors.Is(err, journal.ErrWrappingKey):
		return &closed{err}
	}
	return &Undecodable{Err: err}
}

// Later reports whether an event that could not be read may be readable later: no policy may skip it.
func Later(err error) bool {
	return errors.Is(err, event.ErrArchived) || errors.Is(err, journal.ErrWrappingKey)
}

// closed is the error of an event whose key is out of reach. It counts as no attempt.
type closed struct{ err error }

func (e *closed) Error() string       { return e.err.Error() }
func (e *closed) Unwrap() error       { return e.err }
func (e *closed) FailureClass() Class { return ClassTransient }
func (e *closed) FailureCode() string { return CodeWrappingKey }

// PanicError is the error of a projection that panicked.
type PanicError struct {
	Value any
	Stack string
}

// Recover makes a panic of the function that defers it an error.
func Recover(err *error) {
	if r := recover(); r != nil {
		*err = &PanicError{Value: r, Stack: string(debug.Stack())}
	}
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Redacted returns only the type of the value.
func (e *PanicError) Redacted() string { return fmt.Sprintf("panic (%T)", e.Value) }

// FailureClass returns [ClassPermanent]: code that did not expect an event never will. A panic with
// an error of the infrastructure, or of a lock, has the class of that error.
func (e *PanicError) FailureClass() Class {
	if cause, ok := e.Value.(error); ok {
		if class := Classify(cause); Waits(class) || elsewhere(cause) {
			return class
		}
	}
	return ClassPermanent
}

// FailureCode returns the code that is stored.
func (e *PanicError) FailureCode() string { return codePanic }

// IsLockTimeout reports whether a statement waited for a lock in vain: lock not available, or deadlock.
func IsLockTimeout(err error) bool {
	return classifyState(redact.SQLState(err)) == ClassLock
}

// IsRollback reports whether the server has rolled something back for a reason that may be gone at once, such
// as a serialization failure. Deadlocks are lock timeouts.
func IsRollback(err error) bool {
	return strings.HasPrefix(redact.SQLState(err), "40") && !IsLockTimeout(err)
}

// OwnLockTimeout is IsLockTimeout for statements that belong to no projection.
func OwnLockTimeout(err error) bool {
	var apply *ApplyError
	return IsLockTimeout(err) && !errors.As(err, &apply)
}
