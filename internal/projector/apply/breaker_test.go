package apply

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
)

var errGone = errors.New("the database is gone")

// testBreaker returns a breaker with the given waits, and its log.
func testBreaker(wait func(failures int) time.Duration) (*Breaker, *bytes.Buffer) {
	log := &bytes.Buffer{}
	return NewBreaker(slog.New(slog.NewTextHandler(log, nil)), prometheus.NewGauge(prometheus.GaugeOpts{Name: "state"}),
		wait), log
}

func forever(int) time.Duration { return time.Hour }
func atOnce(int) time.Duration  { return 0 }

func TestBreaker(t *testing.T) {
	t.Parallel()
	t.Run("opens_after_some_failures_in_a_row_and_not_before", func(t *testing.T) {
		t.Parallel()
		b, _ := testBreaker(forever)
		for range 5 {
			for range breakerThreshold - 1 {
				if !b.Failed(t.Context(), errGone) || b.Open() {
					t.Fatal("a failure below the threshold opened it")
				}
			}
			b.Succeeded(t.Context())
		}
		for range breakerThreshold {
			b.Failed(t.Context(), errGone)
		}
		if !b.Open() {
			t.Error("it is not open")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		b.Pass(ctx)
		if ctx.Err() == nil {
			t.Error("somebody passed it while it was open")
		}
	})
	t.Run("is_half_open_after_its_wait_until_the_trial_has_an_outcome", func(t *testing.T) {
		t.Parallel()
		var waits []int
		b, _ := testBreaker(func(failures int) time.Duration { waits = append(waits, failures); return 0 })
		if b.Pass(t.Context()) {
			t.Error("a closed breaker asks for a trial")
		}
		for range breakerThreshold {
			b.Failed(t.Context(), errGone)
		}
		for range 2 {
			if !b.Pass(t.Context()) || b.Open() {
				t.Fatal("there is no trial after the wait")
			}
			b.Failed(t.Context(), errGone)
			if !b.Open() {
				t.Fatal("a trial that failed did not open it")
			}
		}
		if len(waits) != 3 || waits[0] != 0 || waits[1] != 1 || waits[2] != 2 {
			t.Errorf("the waits were for %v failures beyond the threshold, want 0, 1, 2", waits)
		}
		b.Pass(t.Context())
		settled := make(chan struct{})
		go func() { defer close(settled); b.Settle(t.Context()) }()
		b.Succeeded(t.Context())
		<-settled
		if b.Open() || b.Pass(t.Context()) || !b.Failed(t.Context(), errGone) || b.Open() {
			t.Error("it did not close, or counts what was before it closed")
		}
	})
	t.Run("closes_for_a_success_of_what_was_under_way_when_it_opened", func(t *testing.T) {
		t.Parallel()
		b, _ := testBreaker(forever)
		for range breakerThreshold {
			b.Failed(t.Context(), errGone)
		}
		passed := make(chan bool)
		go func() { passed <- b.Pass(t.Context()) }()
		b.Succeeded(t.Context())
		if <-passed {
			t.Error("the claim after it is a trial")
		}
	})
	t.Run("logs_its_changes_and_nothing_else", func(t *testing.T) {
		t.Parallel()
		b, log := testBreaker(atOnce)
		for range breakerThreshold + 10 {
			b.Failed(t.Context(), errGone)
		}
		b.Pass(t.Context())
		b.Succeeded(t.Context())
		b.Succeeded(t.Context())
		if n := strings.Count(log.String(), "\n"); n != 3 {
			t.Errorf("%d lines, want one for each of open, half-open and closed:\n%s", n, log)
		}
	})
}

func TestTheLimitOfAGroupHalvesWithEachFailureAndGrowsBack(t *testing.T) {
	t.Parallel()
	l := NewPace(registry.Settings{GroupEvents: 1000})
	for range 20 {
		l.shrink()
	}
	if n := l.Events(); n != 1 {
		t.Errorf("after many failures it is %d, want 1", n)
	}
	successes := 0
	for ; l.Events() < 1000 && successes < 1000; successes++ {
		before := l.Events()
		l.grow()
		if l.Events() > 2*before {
			t.Fatalf("it jumped from %d to %d", before, l.Events())
		}
	}
	if successes > 60 {
		t.Errorf("it took %d successes to be whole again", successes)
	}
	l.grow()
	if n := l.Events(); n != 1000 {
		t.Errorf("it grew to %d, beyond what is configured", n)
	}
}
