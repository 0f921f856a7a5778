package failure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/redact"
)

// ApplyError is projector.ApplyError.
type ApplyError struct {
	Projection string
	CampaignID string
	Seq        int64
	EventType  string
	Err        error

	redacted string // the text of Err without values, where the event was at hand
}

func (e *ApplyError) Error() string {
	if e.Seq == 0 {
		return fmt.Sprintf("projection %s: %v", e.Projection, e.Err)
	}
	return fmt.Sprintf("projection %s: event %d (%s) of campaign %q: %v", e.Projection, e.Seq, e.EventType, e.CampaignID,
		e.Err)
}

// RedactApply gives an error the text that those may see who do not see values of events.
func RedactApply(e *ApplyError, text string) { e.redacted = text }

func (e *ApplyError) Unwrap() error { return e.Err }

// Redacted is the message without text that may quote values of events: for logs, and for readers who
// may not see payloads.
func (e *ApplyError) Redacted() string {
	shown := *e
	if shown.Err = errors.New(redact.Safe(e.Err)); e.redacted != "" {
		shown.Err = errors.New(e.redacted)
	}
	return shown.Error()
}

// DeadlineError is the error of a projection that took longer than its policy's timeout: its code, one of its
// statements, or a group that was too large for the time. It is a transient failure.
type DeadlineError struct {
	Projection string
	Timeout    time.Duration
	Tried      Attempt
}

// Attempt is what was tried when a deadline was over.
type Attempt struct {
	Lost      bool // the connection: what else the transaction did is lost with it
	Own       bool // the projection's: a shorter one that it has set itself
	Abandoned bool // the code has not returned
	Events    int  // of the group that was tried apart; 0: it was not tried apart
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

// Unwrap makes it match [context.DeadlineExceeded].
func (e *DeadlineError) Unwrap() error { return context.DeadlineExceeded }

// FailureClass says that it may be quicker another time.
func (e *DeadlineError) FailureClass() Class { return ClassTransient }

// FailureCode is what is kept of it as a code.
func (e *DeadlineError) FailureCode() string { return codeDeadline }

// Redacted is its text, which has no values.
func (e *DeadlineError) Redacted() string { return e.Error() }

const (
	// codeDeadline is what is kept of a [DeadlineError] as its code.
	codeDeadline = "deadline"

	stateCancelled = "57014"
)

// Cancelled makes a [DeadlineError] of a statement of a projection that the server cancelled after
// statement_timeout. One cancelled earlier was cancelled from outside: an operator, or a lower
// setting of the role; that is the infrastructure's.
func Cancelled(err error, projection string, timeout time.Duration, start time.Time) error {
	var pgErr *pgconn.PgError
	if projection == "" || timeout == 0 || time.Since(start) < timeout || !errors.As(err, &pgErr) ||
		pgErr.Code != stateCancelled {
		return err
	}
	return &DeadlineError{Projection: projection, Timeout: timeout}
}

// CrashError is the error of an event that ended the process each time it was tried, by an exit, a
// fatal error of the runtime, or too much memory. It is given up when a third process dies that had
// CrashError is the error of an event that ended the process each time it was tried, by an exit, a
// fatal error of the runtime, or too much memory. It is given up when a third process dies that had
// named it by a mark, unless something else is killing as well (docs/explanation/isolation.md,
// note_crashes in migrations/00003_leases.sql).
type CrashError struct {
	Crashes int // processes that died
	Alone   int // of those, how many were applying the event or its campaign, and nothing else
}

func (e *CrashError) Error() string {
	return fmt.Sprintf("%d processes died with the campaign in their hands, %d of them while they applied it alone, "+
		"the last one this event", e.Crashes, e.Alone)
}

// FailureClass says that it would end the next process too.
func (e *CrashError) FailureClass() Class { return ClassPermanent }

// FailureCode is what is kept of it as a code.
func (e *CrashError) FailureCode() string { return CodeCrash }

// CodeCrash is what is kept of a [CrashError] as its code.
const CodeCrash = "crash"

// What is kept of an error as its code where it has no SQLSTATE.
const (
	codePanic  = "panic"
	CodeDecode = "decode"
	CodeError  = "error"
)

// Verdict is about an event for one projection.
type Verdict struct {
	Projection string
	CampaignID string
	Seq        int64
}
