package tally

import (
	"context"
	"log/slog"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/projector"
)

// Run starts a worker in this process. The function it returns stops the worker, waits for it and fails the test if it ended with an error; the
// test's end calls it too.
func Run(t testing.TB, cfg projector.Config) (stop func()) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	p, err := projector.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	stopped := false
	stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the worker ended with: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}
