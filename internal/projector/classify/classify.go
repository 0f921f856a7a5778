// Package classify tells what an error means for the event that was being applied. C is
// projection.Class, whose package uses this one.
package classify

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// The classes. Package projection explains them.
const (
	Infrastructure = "infrastructure"
	Transient      = "transient"
	Permanent      = "permanent"
	Lock           = "lock"
)

// Of is projection.Classify.
func Of[C ~string](err error) C {
	var own interface{ FailureClass() C }
	if errors.As(err, &own) {
		return own.FailureClass()
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return C(State(pgErr.Code))
	}
	if IsDecoding(err) {
		return Permanent
	}
	if isEncoding(err) {
		return Infrastructure
	}
	return Transient
}

// isEncoding reports whether a connection was refused because it would change text.
func isEncoding(err error) bool {
	_, refused := errors.AsType[*event.EncodingError](err)
	return refused
}

// State returns the class of a SQLSTATE.
func State(state string) string {
	switch state {
	case "55P03", "40P01":
		return Lock
	case "25006", "25P03":
		return Infrastructure
	case "53400": // a limit such as temp_file_limit, which the same event meets again
		return Transient
	case "42P01", "42703", "42883", "42704", "42501":
		return Transient
	}
	if len(state) < 2 {
		return Transient
	}
	switch state[:2] {
	case "40", "53", "57", "58":
		return Infrastructure
	case "21", "22", "23", "42", "44", "54":
		return Permanent
	}
	return Transient
}

// Elsewhere reports whether an error is our database's fault if a request of ours gets it. On a living
// connection a projection's statement has it from another server, or from a limit.
func Elsewhere(err error) bool {
	state := redact.SQLState(err)
	return state == "53400" || len(state) == 5 && slices.Contains([]string{"08", "28", "3D"}, state[:2])
}

// IsDecoding reports whether something could not be decoded.
func IsDecoding(err error) bool {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	var decode *event.DecodeError
	return errors.As(err, &decode) || errors.As(err, &syntax) || errors.As(err, &mismatch) ||
		errors.Is(err, catalogue.ErrUnknownVersion)
}

// Waits reports whether failures of a class are no event's fault: the projection waits at the event, and
// counts no attempt.
func Waits[C ~string](class C) bool { return class == Infrastructure || class == Lock }

// IsInfrastructure reports whether an error of a request is the database's or the network's: of
// the classes [Infrastructure] or [Lock], a network error, an ended context, the end of a connection
// (io.EOF), or what pgx has not sent. A projection's own code can return any of these.
func IsInfrastructure[C ~string](err error) bool {
	if err == nil {
		return false
	}
	var own interface{ FailureClass() C }
	var pgErr *pgconn.PgError
	if errors.As(err, &own) || errors.As(err, &pgErr) {
		return Waits(Of[C](err)) || own == nil && Elsewhere(err)
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return isEncoding(err) || errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || pgconn.SafeToRetry(err)
}
