package projector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Class is what a failure says of the event that was being applied.
type Class string

// The classes.
const (
	ClassInfrastructure Class = "infrastructure" // nothing: it is the database's or the network's. It costs the event no attempt
	ClassTransient      Class = "transient"      // perhaps nothing: another attempt may succeed
	ClassPermanent      Class = "permanent"      // that it cannot be applied, today or tomorrow, by the projection as it is
	ClassLock           Class = "lock"           // nothing: a session holds a row or table that it needs. The pair is tried again about once a second, at the cost of no attempt
)

// Classes answers all classes.
func Classes() []Class {
	return []Class{ClassInfrastructure, ClassTransient, ClassPermanent, ClassLock}
}

// Classifier decides the class of a projection's failures where it knows better than [Classify]; it answers "" for those it does not know. What it calls
// [ClassInfrastructure] makes the worker wait as a whole; what it calls something else costs an attempt even where Classify would say infrastructure, which is right for
// failures of a service that only this projection talks to. A connection to Postgres that broke stays infrastructure whatever it says.
type Classifier func(err error) Class

// Classify is the default classifier. By SQLSTATE:
//
//   - lock: lock not available (55P03), deadlock (40P01)
//   - infrastructure: connection (08), failed authorization (28) and missing database (3D) on a new connection, other transaction rollbacks (40), resources (53),
//     operator intervention such as shutdown or a cancelled statement (57), system (58), read-only server (25006), idle transaction ended (25P03)
//   - permanent: cardinality (21), data (22), constraints (23), program limits such as a row that is too large for an index (54), CHECK OPTION (44), and of 42 what no
//     deployment mends: syntax errors and mismatched types
//   - transient: all others. Among them is what is missing or forbidden in the schema (42P01, 42703, 42883, 42704, 42501, 3F000): it is a deployment's fault, not the
//     event's, it is soon mended, and it concerns all campaigns at once, so that none should need an operator for it
//
// Of other errors: what cannot be decoded ([journal.DecodeError], errors of encoding/json), [journal.ErrUnknownVersion], a panic and what [Permanent] has marked are permanent. An
// error with a method FailureClass() Class speaks for itself. The rest is transient, network errors and ended contexts among it: they are those of a service that the
// projection talks to, or of a deadline of its own.
//
// For whatever the error, it is infrastructure if the connection to Postgres has broken or the worker stops, which is looked at before.
func Classify(err error) Class {
	var own interface{ FailureClass() Class }
	if errors.As(err, &own) {
		return own.FailureClass()
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return classifyState(pgErr.Code)
	}
	if isDecoding(err) {
		return ClassPermanent
	}
	return ClassTransient
}

func classifyState(state string) Class {
	switch state {
	case "55P03", "40P01":
		return ClassLock
	case "25006", "25P03":
		return ClassInfrastructure
	case "42P01", "42703", "42883", "42704", "42501":
		return ClassTransient
	}
	if len(state) < 2 {
		return ClassTransient
	}
	switch state[:2] {
	case "08", "28", "3D", "40", "53", "57", "58":
		return ClassInfrastructure
	case "21", "22", "23", "42", "44", "54":
		return ClassPermanent
	}
	return ClassTransient
}

// isDecoding says whether something could not be read as what it should be.
func isDecoding(err error) bool {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	var decode *journal.DecodeError
	return errors.As(err, &decode) || errors.As(err, &syntax) || errors.As(err, &mismatch) || errors.Is(err, journal.ErrUnknownVersion)
}

// IsInfrastructure says whether an error of a request to the database is its or the network's: whether [Classify] calls it [ClassInfrastructure] or [ClassLock], or it is a network error, an
// ended context, the end of a connection (io.EOF), or what pgx has not sent. Among the errors of a projection those could be anybody's.
func IsInfrastructure(err error) bool {
	if err == nil {
		return false
	}
	var own interface{ FailureClass() Class }
	var pgErr *pgconn.PgError
	if errors.As(err, &own) || errors.As(err, &pgErr) {
		class := Classify(err)
		return class == ClassInfrastructure || class == ClassLock
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || pgconn.SafeToRetry(err)
}

// Permanent marks an error as permanent: the pair is dead at once, unless a policy says otherwise. It leaves an error that says nothing of the event ([ClassInfrastructure]), and
// nil, as they are.
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

// brokenError is any error on a connection that has broken.
type brokenError struct{ err error }

func (e *brokenError) Error() string       { return e.err.Error() }
func (e *brokenError) Unwrap() error       { return e.err }
func (e *brokenError) FailureClass() Class { return ClassInfrastructure }

// undecodable is the error of an event that cannot be brought to the current version of its type.
type undecodable struct{ err error }

func (e *undecodable) Error() string       { return e.err.Error() }
func (e *undecodable) Unwrap() error       { return e.err }
func (e *undecodable) FailureClass() Class { return ClassPermanent }
func (e *undecodable) FailureCode() string { return codeDecode }

// PanicError is the error of a projection that panicked.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Redacted says of what type the value is.
func (e *PanicError) Redacted() string { return fmt.Sprintf("panic (%T)", e.Value) }

// FailureClass says that a panic is permanent: code that did not expect an event will not expect it the next time. One with the error of a deadlock is a deadlock.
func (e *PanicError) FailureClass() Class {
	if cause, ok := e.Value.(error); ok {
		if class := Classify(cause); class == ClassInfrastructure || class == ClassLock {
			return class
		}
	}
	return ClassPermanent
}

// FailureCode is what is kept of it as a code.
func (e *PanicError) FailureCode() string { return codePanic }

// isLockTimeout says whether a statement waited for a lock in vain: lock not available, deadlock.
func isLockTimeout(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && classifyState(pgErr.Code) == ClassLock
}

// ownLockTimeout is isLockTimeout for statements that are no projection's.
func ownLockTimeout(err error) bool {
	var apply *ApplyError
	return isLockTimeout(err) && !errors.As(err, &apply)
}
