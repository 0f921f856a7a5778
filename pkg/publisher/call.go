package publisher

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// callSink turns a panic into an error, and takes values of the batch out of what the sink says.
func callSink(ctx context.Context, sink Sink, batch []Event) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("sink %s panicked: %v\n%s", sink.Name(), r, debug.Stack())
		}
		err = withoutValues(err, batch)
	}()
	return sink.Publish(ctx, batch)
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

// callHealthy turns a panic into an error.
func callHealthy(ctx context.Context, checker HealthChecker) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("health check panicked: %v", r)
		}
	}()
	return checker.Healthy(ctx)
}
