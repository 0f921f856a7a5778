package publisher

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// The documentation states these defaults of a relay and a publisher.
func TestDefaultsAreThoseThatAreDocumented(t *testing.T) {
	t.Parallel()
	cfg, err := Config{Pool: &pgxpool.Pool{}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.LeaseTTL != 30*time.Second || cfg.PollInterval != 500*time.Millisecond || cfg.IdleAfter != 3 ||
		cfg.IdleMax != time.Minute || cfg.NoListen {
		t.Errorf("a relay has %+v", cfg)
	}
	to, err := Publisher{Name: "out", Sink: sinkFunc(accepts)}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if to.BatchSize != 100 || to.Order != OrderCampaign || to.OnRefusal != ParkCampaign || to.Attempts != 25 ||
		to.BackoffMax != 10*time.Second || to.Timeout != 30*time.Second || to.Concurrency != 4 {
		t.Errorf("a publisher has %+v", to)
	}
	if to, err = (Publisher{
		Name: "out", Sink: sinkFunc(accepts), Order: OrderGlobal,
		Concurrency: 8,
	}).withDefaults(); err != nil || to.Concurrency != 1 {
		t.Errorf("in global order %d batches are under way at once, %v", to.Concurrency, err)
	}
}

// Pairs that wait for the same thing must not wake in step, so poll waits and waits after a failure
// have jitter.
func TestWaitsAreSpread(t *testing.T) {
	t.Parallel()
	r, key := alone(t, sinkFunc(accepts))
	p := claimed(r, key, 0)
	spread := func(wait func() time.Duration) (least, most time.Duration) {
		for i := range 300 {
			d := wait()
			if i == 0 {
				least, most = d, d
			}
			least, most = min(least, d), max(most, d)
		}
		return least, most
	}
	if least, most := spread(func() time.Duration { return r.reader.pollDelay(p) }); least < time.Second ||
		most > 1500*time.Millisecond || most-least < 400*time.Millisecond {
		t.Errorf("polls are from %s to %s apart, want from 1s to 1.5s", least, most)
	}
	least, most := spread(func() time.Duration {
		now := time.Now()
		p.failures = 100
		r.saver.fail(p, errors.New("down"), now)
		return p.notBefore.Sub(now)
	})
	if least < 7500*time.Millisecond || most > 12500*time.Millisecond || most-least < 4*time.Second {
		t.Errorf("a pair that fails waits from %s to %s, want 10s and up to a quarter more or less", least, most)
	}
}

func TestAnEventsAttemptsAreFurtherAndFurtherApart(t *testing.T) {
	t.Parallel()
	to, err := Publisher{Name: "out", Sink: sinkFunc(accepts)}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{route: &route{to: to}}
	for attempts, want := range map[int]time.Duration{
		1: 500 * time.Millisecond, 2: time.Second, 3: 2 * time.Second,
		7: 32 * time.Second, 8: time.Minute, 1000: time.Minute,
	} {
		if got := p.retryDelay(attempts); got != want {
			t.Errorf("after %d attempts it waits %s, want %s", attempts, got, want)
		}
	}
}

// An empty poll counts once for each pair that polled. The wait grows only after three of them.
func TestEmptyPollsAreCounted(t *testing.T) {
	t.Parallel()
	r, key := alone(t, sinkFunc(accepts))
	p := claimed(r, key, 0)
	for polls := range 6 {
		p.polled = true
		now := time.Now()
		r.dispatcher.fill(p, now)
		least := time.Second << max(polls+1-3, 0)
		if wait := p.nextPoll.Sub(now); p.empty != polls+1 || wait < least || wait > least+500*time.Millisecond {
			t.Errorf("after %d empty polls it has counted %d and waits %s, want %s and up to 500ms more", polls+1, p.empty,
				wait, least)
		}
	}
}
