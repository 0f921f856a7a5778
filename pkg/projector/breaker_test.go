package projector

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var errGone = errors.New("the database is gone")

// testBreaker has waits that the test names, and writes to the log that it returns.
func testBreaker(wait func(failures int) time.Duration) (*breaker, *bytes.Buffer) {
	log := &bytes.Buffer{}
	return newBreaker(slog.New(slog.NewTextHandler(log, nil)), prometheus.NewGauge(prometheus.GaugeOpts{Name: "state"}), wait), log
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
				if !b.failed(t.Context(), errGone) || b.open() {
					t.Fatal("a failure below the threshold opened it")
				}
			}
			b.succeeded(t.Context())
		}
		for range breakerThreshold {
			b.failed(t.Context(), errGone)
		}
		if !b.open() {
			t.Error("it is not open")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		b.pass(ctx)
		if ctx.Err() == nil {
			t.Error("somebody passed it while it was open")
		}
	})
	t.Run("is_half_open_after_its_wait_until_the_trial_has_an_outcome", func(t *testing.T) {
		t.Parallel()
		var waits []int
		b, _ := testBreaker(func(failures int) time.Duration { waits = append(waits, failures); return 0 })
		if b.pass(t.Context()) {
			t.Error("a closed breaker asks for a trial")
		}
		for range breakerThreshold {
			b.failed(t.Context(), errGone)
		}
		for range 2 {
			if !b.pass(t.Context()) || b.open() {
				t.Fatal("there is no trial after the wait")
			}
			b.failed(t.Context(), errGone)
			if !b.open() {
				t.Fatal("a trial that failed did not open it")
			}
		}
		if len(waits) != 3 || waits[0] != 0 || waits[1] != 1 || waits[2] != 2 {
			t.Errorf("the waits were for %v failures beyond the threshold, want 0, 1, 2", waits)
		}
		b.pass(t.Context())
		settled := make(chan struct{})
		go func() { defer close(settled); b.settle(t.Context()) }()
		b.succeeded(t.Context())
		<-settled
		if b.open() || b.pass(t.Context()) || !b.failed(t.Context(), errGone) || b.open() {
			t.Error("it did not close, or counts what was before it closed")
		}
	})
	t.Run("closes_for_a_success_of_what_was_under_way_when_it_opened", func(t *testing.T) {
		t.Parallel()
		b, _ := testBreaker(forever)
		for range breakerThreshold {
			b.failed(t.Context(), errGone)
		}
		passed := make(chan bool)
		go func() { passed <- b.pass(t.Context()) }()
		b.succeeded(t.Context())
		if <-passed {
			t.Error("the claim after it is a trial")
		}
	})
	t.Run("logs_its_changes_and_nothing_else", func(t *testing.T) {
		t.Parallel()
		b, log := testBreaker(atOnce)
		for range breakerThreshold + 10 {
			b.failed(t.Context(), errGone)
		}
		b.pass(t.Context())
		b.succeeded(t.Context())
		b.succeeded(t.Context())
		if n := strings.Count(log.String(), "\n"); n != 3 {
			t.Errorf("%d lines, want one for each of open, half-open and closed:\n%s", n, log)
		}
	})
}

func TestTheLimitOfAGroupHalvesWithEachFailureAndGrowsBack(t *testing.T) {
	t.Parallel()
	l := newLimit(1000)
	for range 20 {
		l.shrink()
	}
	if n := l.events(); n != 1 {
		t.Errorf("after many failures it is %d, want 1", n)
	}
	successes := 0
	for ; l.events() < 1000 && successes < 1000; successes++ {
		before := l.events()
		l.grow()
		if l.events() > 2*before {
			t.Fatalf("it jumped from %d to %d", before, l.events())
		}
	}
	if successes > 60 {
		t.Errorf("it took %d successes to be whole again", successes)
	}
	l.grow()
	if n := l.events(); n != 1000 {
		t.Errorf("it grew to %d, beyond what is configured", n)
	}
}
