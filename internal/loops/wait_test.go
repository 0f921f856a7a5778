package loops_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/loops"
)

func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond,
		5: 1600 * time.Millisecond, 8: 10 * time.Second, 100: 10 * time.Second,
	} {
		for range 20 {
			if got := loops.Backoff(failures, 100*time.Millisecond, 10*time.Second); got < want*3/4 || got > want*5/4 {
				t.Errorf("after %d failures: %s", failures, got)
			}
		}
	}
}

func TestASleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if loops.Sleep(ended, time.Hour) || loops.Rated(ended, time.Now(), 3600, 1) {
		t.Error("a sleep outlasts its context")
	}
	if !loops.Sleep(t.Context(), 0) || !loops.Rated(t.Context(), time.Now().Add(-time.Minute), 50, 1) {
		t.Error("a sleep of no time is cut off")
	}
}
