package failure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Cause returns what a [projection.ApplyError] wraps, and any other error as it is.
func Cause(err error) error {
	if apply, ok := errors.AsType[*projection.ApplyError](err); ok {
		return apply.Err
	}
	return err
}

// RedactApply sets the text of an error's cause for readers who may not see values of events.
func RedactApply(e *projection.ApplyError, text string) { e.Err = &redacted{e.Err, text} }

// redacted is an error whose text without values is known.
type redacted struct {
	error
	text string
}

func (r *redacted) Unwrap() error    { return r.error }
func (r *redacted) Redacted() string { return r.text }

// DeadlineError is the error of a projection that exceeded its policy's timeout, in its code or in
// one of its statements, or because its group was too large. It is a transient failure.
type DeadlineError struct {
	Projection string
	Timeout    time.Duration
	Tried      Attempt
}

// Attempt is what was tried when a deadline passed.
type Attempt struct {
	Lost      bool // the connection, and with it the rest of the transaction
	Own       bool // the projection's: it has set itself a shorter one
	Abandoned bool // the code has not returned
	Events    int  // of the group that was tried apart; 0: none was
	At        Verdict
}

func (e *DeadlineError) Error() string {
	if e.Tried.Abandoned {
		return fmt.Sprintf("did not return within its timeout of %v, and was abandoned", e.Timeout)
	}
	if e.Tried.Own {
		return "gave up one of its statements at a deadline of its own"
	}
	return fmt.Sprintf("was not done within its timeout of %v", e.Timeout)
}

// Unwrap makes the error match [context.DeadlineExceeded].
func (e *DeadlineError) Unwrap() error { return context.DeadlineExceeded }

// FailureClass returns [projection.ClassTransient]: the next attempt may be quicker.
func (e *DeadlineError) FailureClass() projection.Class { return projection.ClassTransient }

// FailureCode returns the code that is stored.
func (e *DeadlineError) FailureCode() string { return codeDeadline }

// Redacted returns the error's text, which has no values.
func (e *DeadlineError) Redacted() string { return e.Error() }

const (
	codeDeadline = "deadline"

	stateCancelled = "57014"
)

// Cancelled turns the error of a projection's statement that the server cancelled after
// statement_timeout into a [DeadlineError]. One cancelled earlier was cancelled from outside, by an
// operator or a lower setting of the role: that is the infrastructure's.
func Cancelled(err error, projection string, timeout time.Duration, start time.Time) error {
	if projection == "" || !TimedOut(err, timeout, start) {
		return err
	}
	return &DeadlineError{Projection: projection, Timeout: timeout}
}

// TimedOut reports whether the server has cancelled a statement, sent after start, because of a statement_timeout.
func TimedOut(err error, timeout time.Duration, start time.Time) bool {
	return redact.SQLState(err) == stateCancelled && timeout > 0 && time.Since(start) >= timeout
}

// PutOffError is the error of an event that was not tried, because another one of its group took long to
// fail. It has what is stored of the other one.
type PutOffError struct{ Code, Message, Fingerprint string }

func (e *PutOffError) Error() string {
	return "not tried yet: another event of the group took long to fail: " + e.Message
}

// Redacted returns the error's text, which has no values.
func (e *PutOffError) Redacted() string { return e.Error() }

// FailureClass returns [projection.ClassInfrastructure]: the event waits, and counts no attempt.
func (e *PutOffError) FailureClass() projection.Class { return projection.ClassInfrastructure }

// FailureCode returns the code that is stored.
func (e *PutOffError) FailureCode() string { return e.Code }

// CrashError is the error of an event that ended the process each time it was tried, by an exit, a
// fatal error of the runtime, or too much memory. The event is given up after three deaths, two of
// them under a mark, if the last mark named it and nothing else is killing as well
// (docs/explanation/isolation.md, tidemark.note_crashes).
type CrashError struct {
	Crashes int // processes that died
	Alone   int // of those, how many were applying only the event or its campaign
}

func (e *CrashError) Error() string {
	return fmt.Sprintf("%d processes died while they held the campaign or partition, %d of them while they applied "+
		"it alone, the last one at this event", e.Crashes, e.Alone)
}

// FailureClass returns [projection.ClassPermanent]: the event would end the next process too.
func (e *CrashError) FailureClass() projection.Class { return projection.ClassPermanent }

// FailureCode returns the code that is stored.
func (e *CrashError) FailureCode() string { return CodeCrash }

// CodeCrash is the stored code of a [CrashError].
const CodeCrash = "crash"

// The stored codes of errors without a SQLSTATE.
const (
	codePanic  = "panic"
	CodeDecode = "decode"
	CodeError  = "error"

	CodeKey         = "key"          // it does not open: see [catalogue.ErrBrokenKey]
	CodeWrappingKey = "wrapping_key" // out of reach: see [catalogue.ErrWrappingKey]
)

// Verdict names an event and a projection.
type Verdict struct {
	Projection string
	CampaignID string
	Seq        int64
}
