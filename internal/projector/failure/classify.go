package failure

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/tidemark-go/tidemark/internal/projector/classify"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Classes returns all classes.
func Classes() []projection.Class {
	return []projection.Class{
		projection.ClassInfrastructure, projection.ClassTransient, projection.ClassPermanent, projection.ClassLock,
	}
}

// Waits reports whether failures of a class are no event's fault: the projection waits at the event, and
// counts no attempt.
func Waits(c projection.Class) bool { return classify.Waits(c) }

// IsDecoding reports whether something could not be decoded.
func IsDecoding(err error) bool { return classify.IsDecoding(err) }

// IsInfrastructure reports whether an error of a request is the database's or the network's. A
// projection's own code can return any of these.
func IsInfrastructure(err error) bool { return classify.IsInfrastructure[projection.Class](err) }

// BrokenError is any error on a broken connection.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return e.Err.Error() }
func (e *BrokenError) Unwrap() error { return e.Err }

// FailureClass returns [projection.ClassInfrastructure]: no event is at fault.
func (e *BrokenError) FailureClass() projection.Class { return projection.ClassInfrastructure }

// Undecodable is the error of an event that cannot be brought to the current version of its type.
type Undecodable struct{ Err error }

func (e *Undecodable) Error() string { return e.Err.Error() }
func (e *Undecodable) Unwrap() error { return e.Err }

// FailureClass returns [projection.ClassPermanent]: the event will not be readable the next time.
func (e *Undecodable) FailureClass() projection.Class { return projection.ClassPermanent }

// FailureCode returns the code that is stored.
func (e *Undecodable) FailureCode() string {
	if errors.Is(e.Err, catalogue.ErrBrokenKey) {
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
	case errors.Is(err, catalogue.ErrWrappingKey):
		return &closed{err}
	}
	return &Undecodable{Err: err}
}

// Later reports whether an event that could not be read may be readable later: no policy may skip it.
func Later(err error) bool {
	return errors.Is(err, event.ErrArchived) || errors.Is(err, catalogue.ErrWrappingKey)
}

// closed is the error of an event whose key is out of reach. It counts as no attempt.
type closed struct{ err error }

func (e *closed) Error() string                  { return e.err.Error() }
func (e *closed) Unwrap() error                  { return e.err }
func (e *closed) FailureClass() projection.Class { return projection.ClassTransient }
func (e *closed) FailureCode() string            { return CodeWrappingKey }

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

// FailureClass returns [projection.ClassPermanent]: code that did not expect an event never will. A panic with
// an error of the infrastructure, or of a lock, has the class of that error.
func (e *PanicError) FailureClass() projection.Class {
	if cause, ok := e.Value.(error); ok {
		if class := projection.Classify(cause); Waits(class) || classify.Elsewhere(cause) {
			return class
		}
	}
	return projection.ClassPermanent
}

// FailureCode returns the code that is stored.
func (e *PanicError) FailureCode() string { return codePanic }

// IsLockTimeout reports whether a statement waited for a lock in vain: lock not available, or deadlock.
func IsLockTimeout(err error) bool {
	return classify.State(redact.SQLState(err)) == classify.Lock
}

// IsRollback reports whether the server has rolled something back for a reason that may be gone at once, such
// as a serialization failure. Deadlocks are lock timeouts.
func IsRollback(err error) bool {
	return strings.HasPrefix(redact.SQLState(err), "40") && !IsLockTimeout(err)
}

// OwnLockTimeout is IsLockTimeout for statements that belong to no projection.
func OwnLockTimeout(err error) bool {
	var apply *projection.ApplyError
	return IsLockTimeout(err) && !errors.As(err, &apply)
}
