package publisher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Errors that sinks return.
var (
	// ErrNotTried is the failure of an event that was not sent because an earlier one of its campaign
	// failed. It costs no attempt.
	ErrNotTried = errors.New("not tried: an event before it failed")
	// ErrClosed is returned by Publish after a sink is closed.
	ErrClosed = errors.New("the sink is closed")
)

// BatchError names the events of a batch that were not published. All others were.
//
// If the other side fails half-way, name the rest with [ErrNotTried], alone or wrapped: none of
// those events is at fault, and the pair waits. The batch error may itself be wrapped, also with
// [Pause] and [RetryAfter].
type BatchError struct {
	Failures []Failure // by Index, each at most once
}

// Failure is an event that was not published.
type Failure struct {
	Index     int   // in the batch
	Err       error // ErrNotTried if the event was not sent
	Permanent bool  // retrying cannot help: the event is parked at once
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
	return slice.Of(e.Failures, func(f Failure) error { return f.Err })
}

// Pause marks an error that pauses the pair until an operator resumes it: the other side wants no
// more events, e.g. a webhook that responds with 410 Gone.
func Pause(err error) error { return &marked{err, errPause} }

// RetryAfter marks an error after which the pair waits for d, up to 5 minutes, as an HTTP
// Retry-After asks. The pair's own back-off applies if it is longer.
func RetryAfter(err error, d time.Duration) error { return &marked{err, retryAfter(d)} }

// Outage marks an error that is certainly no event's fault, such as a missing permission or a full
// disk. The pair waits, no event loses an attempt, and the events are not tried one by one, even if
// [HealthChecker] reports the other side as healthy. It returns nil for nil.
func Outage(err error) error {
	if err == nil {
		return nil
	}
	return &marked{err, errOutage}
}

// marked is a sink's error with a mark that decides what happens to the pair.
type marked struct{ error, mark error }

func (m *marked) Error() string   { return m.error.Error() }
func (m *marked) Unwrap() []error { return []error{m.error, m.mark} }

// The marks. Their texts are never shown.
var (
	errPause  = errors.New("pause")
	errOutage = errors.New("outage")
)

type retryAfter time.Duration

func (retryAfter) Error() string { return "retry after" }

func isPause(err error) bool { return errors.Is(err, errPause) }

// blamesNobody reports whether the error is an outage or asks for a wait. Such a sink is not probed.
func blamesNobody(err error) bool {
	var after retryAfter
	return errors.Is(err, errOutage) || errors.As(err, &after)
}

// sinkError is a sink's error without values of the events: the other side may repeat them in its text.
type sinkError struct {
	error              // its text has no values
	err    error       // the sink's own error
	partly *BatchError // nil: err has none
}

func (e *sinkError) Unwrap() error { return e.err }

// As returns the batch error whose failures have no values in their texts.
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
	about := slice.Of(batch, func(e Event) *event.Event { return &e.Event })
	clean := &sinkError{error: redact.Wrap(err, about...), err: err}
	if partly, ok := errors.AsType[*BatchError](err); ok {
		known := map[string]error{} // by text: a sink often repeats one error for all events
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
