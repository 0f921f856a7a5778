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
// Where the other side fails half-way, name the rest with [ErrNotTried], alone or wrapped: no event
// of theirs is at fault, and the pair waits. The batch error may itself be wrapped, also with [Pause]
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
func Pause(err error) error { return &marked{err, errPause} }

// RetryAfter marks an error after which the other side is left alone for d, as an HTTP response with
// Retry-After asks. It replaces the pair's own back-off where it is longer, up to 5 minutes.
func RetryAfter(err error, d time.Duration) error { return &marked{err, retryAfter(d)} }

// Outage marks an error that is certainly no single event's fault, such as a missing right or a full
// disk. The pair waits, no event loses an attempt, and the events are not tried one by one, even
// where [HealthChecker] finds the other side well. It answers nil for nil.
func Outage(err error) error {
	if err == nil {
		return nil
	}
	return &marked{err, errOutage}
}

// marked is an error of a sink with a mark that says what becomes of the pair.
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

// blamesNobody tells whether the other side wants to be left alone, or cannot take any event: it is not to be probed.
func blamesNobody(err error) bool {
	var after retryAfter
	return errors.Is(err, errOutage) || errors.As(err, &after)
}

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
