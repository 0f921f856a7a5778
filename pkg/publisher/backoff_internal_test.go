package publisher

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// alone returns a relay without a database and with one pair, which publishes to sink.
func alone(t *testing.T, sink Sink) (*Relay, publications.Key) {
	t.Helper()
	to, err := Publisher{Name: "out", Sink: sink}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	key := publications.Key{Topic: "all", Publisher: "out"}
	m, err := newMetrics(prometheus.NewRegistry(), []publications.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		LeaseTTL: time.Hour, PollInterval: time.Second, IdleAfter: 3, IdleMax: time.Minute, CacheBytes: 1 << 20,
		PageEvents: 1000, Logger: slog.New(slog.DiscardHandler),
	}
	r := newRelay(cfg, map[publications.Key]*route{key: {Key: key, to: to, filter: &Filter{}}}, m, "me", "here")
	r.ctx = t.Context()
	return r, key
}

// claimed returns the pair as it is right after a claim.
func claimed(r *Relay, key publications.Key, wait time.Duration) *pair {
	now := time.Now()
	r.claimer.hold(ledger.Claimed{Key: key, Generation: 1, Errors: 3, Wait: wait},
		&tick{Seen: &ledger.Seen{}, started: now}, now)
	p := r.pairs[key]
	p.reporting = true // a save in progress, so nothing writes to the missing database
	return p
}

func accepts([]Event) error { return nil }

func TestAPairWaitsAsLongAsTheOtherSideAsksAndFiveMinutesAtMost(t *testing.T) {
	t.Parallel()
	r, key := alone(t, sinkFunc(accepts))
	p := claimed(r, key, 0)
	for asked, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, time.Hour: 5 * time.Minute} {
		now := time.Now()
		r.saver.fail(p, RetryAfter(errors.New("busy"), asked), now)
		if got := p.notBefore.Sub(now); got != want {
			t.Errorf("asked to wait %s it waits %s, want %s", asked, got, want)
		}
	}
}

func TestAPairThatIsHandedOverWaitsOn(t *testing.T) {
	t.Parallel()
	r, key := alone(t, sinkFunc(accepts))
	for left, want := range map[time.Duration]time.Duration{0: 0, time.Minute: time.Minute, time.Hour: 5 * time.Minute} {
		before := time.Now()
		p := claimed(r, key, left)
		if p.failures != 3 {
			t.Errorf("it has failed %d times, its row says 3", p.failures)
		}
		if want == 0 && !p.notBefore.IsZero() || want > 0 &&
			(p.notBefore.Before(before.Add(want)) || p.notBefore.After(time.Now().Add(want))) {
			t.Errorf("with %s left to wait it waits until %s", left, p.notBefore)
		}
	}
}

func TestTheFirstEventEndsTheIdleBackoff(t *testing.T) {
	t.Parallel()
	r, key := alone(t, sinkFunc(accepts))
	p := claimed(r, key, 0)
	p.wanting, p.empty, p.nextPoll = true, 9, time.Now().Add(time.Minute)
	r.reader.cache.Add(&pages.Page{Until: 1, Events: []event.Event{{CampaignID: "c", Seq: 1, Position: 1}}})
	r.reader.head = 1
	r.dispatcher.fill(p, time.Now())
	if p.wanting || p.empty != 0 || !p.nextPoll.IsZero() {
		t.Errorf("it still waits: wanting %t, after %d empty polls, until %s", p.wanting, p.empty, p.nextPoll)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case posted := <-r.inbox:
		posted()
	case <-ctx.Done():
		t.Fatal("nothing was sent")
	}
	if p.published != 1 || p.acked != 1 {
		t.Errorf("%d events are published, up to position %d", p.published, p.acked)
	}
}
