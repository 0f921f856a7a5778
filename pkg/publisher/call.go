package publisher

import (
	"context"
	"fmt"
	"runtime/debug"
)

// callSink turns a panic into an error.
func callSink(ctx context.Context, sink Sink, batch []Event) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("sink %s panicked: %v\n%s", sink.Name(), r, debug.Stack())
		}
	}()
	return sink.Publish(ctx, batch)
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
