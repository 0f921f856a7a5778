package publisher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Errors that sinks return.
var (
	// ErrNotTried is the failure of an event that was not sent because one before it in its campaign
	// failed. It costs no attempt.
	ErrNotTried = errors.New("not tried: an event before it failed")
	// ErrClosed is returned by Publish once a sink is closed.
	ErrClosed = errors.New("the sink is closed")
)

// BatchError says which events of a batch were not published. All others were.
//
// Where the other side fails half-way, as one that limits the rate, name the rest with
// [ErrNotTried], alone or wrapped: of a campaign whose first failure is that no event is at fault,
// and the pair waits. The batch error itself may be wrapped as well, to say why, and with [Pause]
// and [RetryAfter].
type BatchError struct {
	Failures []Failure // by Index, each at most once
}

// Failure is an event that was not published.
type Failure struct {
	Index     int   // in the batch
	Err       error // why; ErrNotTried if it was not sent
	Permanent bool  // sending it again will not help: it is parked at once
}

// Error counts the failures and shows the first.
func (e *BatchError) Error() string {
	if len(e.Failures) == 0 {
		return "no event was refused"
	}
	f := e.Failures[0]
	return fmt.Sprintf("%d events were not published, first event %d of the batch: %v", len(e.Failures), f.Index, f.Err)
}

// Unwrap returns the errors of the failures.
func (e *BatchError) Unwrap() []error {
	errs := make([]error, len(e.Failures))
	for i, f := range e.Failures {
		errs[i] = f.Err
	}
	return errs
}

// Pause marks an error after which the pair is paused until an operator resumes it: the other side
// wants no more events, as a webhook that answers 410 Gone.
func Pause(err error) error { return &pauseError{err} }

type pauseError struct{ err error }

func (e *pauseError) Error() string { return e.err.Error() }
func (e *pauseError) Unwrap() error { return e.err }

// RetryAfter marks an error after which the other side is to be left alone for d, as an HTTP
// response with Retry-After says. It replaces the pair's own back-off where it is longer, up to 5
// minutes.
func RetryAfter(err error, d time.Duration) error { return &retryAfterError{err, d} }

type retryAfterError struct {
	err   error
	after time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// Outage marks an error that is certainly no single event's fault, as a right that is missing, or a
// disk or a memory that is full: the pair waits, no event loses an attempt, and the events are not
// tried one by one to find one that is at fault, even where [HealthChecker] finds the other side
// well. It answers nil for nil.
func Outage(err error) error {
	if err == nil {
		return nil
	}
	return &outageError{err}
}

type outageError struct{ err error }

func (e *outageError) Error() string { return e.err.Error() }
func (e *outageError) Unwrap() error { return e.err }

// sinkError is what a sink says, without values of the events that it was given: the other side may repeat them.
type sinkError struct {
	error              // its text has no values
	err    error       // as the sink has made it
	partly *BatchError // nil: err has none
}

// Unwrap answers what marks there are, such as [Pause].
func (e *sinkError) Unwrap() error { return e.err }

// As answers the batch error whose failures have no values in their texts.
func (e *sinkError) As(target any) bool {
	partly, ok := target.(**BatchError)
	if ok && e.partly != nil {
		*partly = e.partly
	}
	return ok && e.partly != nil
}

func withoutValues(err error, batch []Event) error {
	if err == nil {
		return nil
	}
	about := make([]*journal.Event, len(batch))
	for i := range batch {
		about[i] = &batch[i].Event
	}
	clean := &sinkError{error: redact.Wrap(err, about...), err: err}
	var partly *BatchError
	if errors.As(err, &partly) {
		known := map[string]error{} // by text: a sink often says the same of all
		clean.partly = &BatchError{Failures: slices.Clone(partly.Failures)}
		for i := range clean.partly.Failures {
			f := &clean.partly.Failures[i]
			if f.Err == nil {
				continue
			}
			text := f.Err.Error()
			if known[text] == nil {
				known[text] = errors.New(redact.Error(f.Err, about...))
			}
			f.Err = &sinkError{error: known[text], err: f.Err}
		}
	}
	return clean
}
