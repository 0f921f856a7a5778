package publisher

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestALoopThatDoesNotComeBackIsStuck(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(prometheus.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(Config{
		Pool: pgtest.New(t), LeaseTTL: time.Second, ShutdownTimeout: time.Second,
		PollInterval: time.Second, NoListen: true, Logger: slog.New(slog.DiscardHandler),
	}, nil, m,
		"it", "")
	r.around = 2 * time.Second // ten ticks
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	held := make(chan struct{})
	r.inbox <- func() { <-held }
	until := func(met func([]string) bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); !met(r.Stuck()); loops.Sleep(ctx, 10*time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("these are stuck: %v", r.Stuck())
			}
		}
	}
	until(func(stuck []string) bool { return slices.Equal(stuck, []string{"relay"}) })
	close(held)
	until(func(stuck []string) bool { return stuck == nil })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if stuck := r.pulse.Stuck(time.Now().Add(24 * time.Hour)); stuck != nil {
		t.Errorf("after it has returned these are stuck: %v", stuck)
	}
}
