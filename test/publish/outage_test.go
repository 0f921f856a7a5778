package publish_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/broker"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/proxy"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// TestAnOutageOfMinutesParksNothing makes a pair fail as often as in five minutes, across a
// restart. The delays between the failures are cut short: only the number of attempts matters.
func TestAnOutageOfMinutesParksNothing(t *testing.T) {
	t.Parallel()
	failures := failuresIn(5 * time.Minute)
	for name, trouble := range map[string]func(p *proxy.Proxy, b *broker.Server) (end func(t *testing.T)){
		"when_nobody_answers": func(p *proxy.Proxy, _ *broker.Server) func(*testing.T) {
			p.Stop()
			return func(t *testing.T) { p.Open(t) }
		},
		"when_the_broker_takes_nothing": func(_ *proxy.Proxy, b *broker.Server) func(*testing.T) {
			b.Down("closed")
			return func(*testing.T) { b.Down("") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, b := pgtest.New(t), broker.Start(t)
			watchParked(t, pool)
			p := proxy.Start(t, b.Addr())
			start := func() func() {
				return run(t, quick(t, pool, p.Listen, func(c *publisher.Config, p *publisher.Publisher) {
					p.BackoffMax, c.LeaseTTL, c.Logger = 2*time.Millisecond, time.Minute, slog.New(slog.DiscardHandler)
				}))
			}
			stop := start()
			appendTo(t, pool, 3, campaigns(50)...)
			eventually(t, "all has arrived", func() bool { return b.Taken() == 150 })
			end := trouble(p, b)
			appendTo(t, pool, 3, campaigns(50)...)
			fails(t, pool, failures/2)
			stop()
			stop = start()
			fails(t, pool, failures)
			if n := b.Taken(); n != 150 {
				t.Errorf("%d events arrived in the outage", n-150)
			}
			end(t)
			verify(t, pool, b, everything())
			nothingParked(t, pool)
			stop()
		})
	}
}

// failuresIn returns how often a pair fails in an outage with the default backoff, which doubles
// from 100 ms to 10 s.
func failuresIn(outage time.Duration) (n int) {
	for wait := 100 * time.Millisecond; outage > 0; wait = min(2*wait, 10*time.Second) {
		outage -= wait
		n++
	}
	return n
}

// TestAnEventThatIsBeingRetriedLosesNoAttemptInAnOutage takes the broker down after one event has
// been refused, while its retries become due again and again.
func TestAnEventThatIsBeingRetriedLosesNoAttemptInAnOutage(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.New(t), broker.Start(t)
	var accept atomic.Bool
	b.Refuse(func(a broker.Arrival) (string, bool) {
		if a.Campaign == "c0001" && a.Seq == 2 && !accept.Load() {
			return "not yet", false
		}
		return "", false
	})
	appendTo(t, pool, 3, campaigns(3)...)
	run(t, quick(t, pool, b.Addr(), func(_ *publisher.Config, p *publisher.Publisher) {
		p.Attempts, p.RetryMax = 8, 200*time.Millisecond
	}))
	attempts := func() int {
		return tally.Value[int](t, pool, `SELECT coalesce(max(attempt_count), 0) FROM tidemark.parked
			WHERE status = 'retrying' AND campaign_id = 'c0001' AND seq = 2`)
	}
	eventually(t, "the event is being retried", func() bool { return attempts() >= 1 })
	b.Down("closed")
	before := attempts()
	asked := b.Asked()
	eventually(t, "the relay has asked the broker again and again", func() bool {
		return b.Asked() >= asked+20 || attempts() >= 7
	})
	if now := attempts(); now > before+1 { // one may have been in progress
		t.Errorf("the event had %d attempts when the broker went down and %d a while later", before, now)
	}
	accept.Store(true)
	b.Down("")
	verify(t, pool, b, everything())
}
