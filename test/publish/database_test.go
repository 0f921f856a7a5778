package publish_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/broker"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/proxy"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// behind sends a relay's connections to the database through another address.
func behind(t *testing.T, address string) func(*publisher.Config, *publisher.Publisher) {
	return func(c *publisher.Config, p *publisher.Publisher) {
		c.Pool = tally.HastyPool(t, address, "cut", publisher.Connections+1, time.Second)
		p.Sink.(*broker.Sink).From = "cut"
	}
}

// TestARelayThatIsCutOffFromTheDatabaseIsReplaced cuts a relay off from the database, while it
// still reaches the broker. It cannot know whether it still holds its pairs.
func TestARelayThatIsCutOffFromTheDatabaseIsReplaced(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]struct {
		begin func(t *testing.T, p *proxy.Proxy)
		end   func(t *testing.T, p *proxy.Proxy)
	}{
		"connections_refused": {func(_ *testing.T, p *proxy.Proxy) { p.Stop() }, func(t *testing.T, p *proxy.Proxy) {
			p.Open(t)
		}},
		"connections_silent": {
			func(t *testing.T, p *proxy.Proxy) {
				p.Toxic(t, "timeout", "upstream", map[string]int{"timeout": 0})
				p.Toxic(t, "timeout", "downstream", map[string]int{"timeout": 0})
			},
			func(t *testing.T, p *proxy.Proxy) { p.Heal(t) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, b := pgtest.New(t), broker.Start(t)
			p, address := proxy.ForPostgres(t, pool)
			watchOwners(t, pool)
			watchParked(t, pool)
			run(t, quick(t, pool, b.Addr(), behind(t, address)))
			load := write(t, pool, 3, 5*time.Millisecond)
			arrive(t, b, 100)
			cut.begin(t, p)
			run(t, quick(t, pool, b.Addr(), func(_ *publisher.Config, p *publisher.Publisher) {
				p.Sink.(*broker.Sink).From = "other"
			}))
			from(t, b, "other", 100)
			before := count(b, "cut")
			from(t, b, "other", 300)
			if now := count(b, "cut"); now > before {
				t.Errorf("the relay that is cut off has sent %d events since another publishes its pair", now-before)
			}
			cut.end(t, p)
			backAgain(t, pool)
			load.stop()
			verify(t, pool, b, everything())
			heldOnce(t, pool)
			nothingParked(t, pool)
		})
	}
}

// TestARelayAloneGoesOnWhenTheDatabaseIsBack cuts it off repeatedly, for longer than its lease TTL.
func TestARelayAloneGoesOnWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.New(t), broker.Start(t)
	p, address := proxy.ForPostgres(t, pool)
	watchParked(t, pool)
	run(t, quick(t, pool, b.Addr(), behind(t, address)))
	load := write(t, pool, 3, 5*time.Millisecond)
	for range 2 {
		arrive(t, b, 100)
		p.Stop()
		tally.Eventually(t, "its lease is over", tally.Holds(pool, `SELECT expires_at < clock_timestamp()
			FROM tidemark.readers`))
		p.Open(t)
	}
	arrive(t, b, 100)
	load.stop()
	verify(t, pool, b, everything())
	nothingParked(t, pool)
}

// count returns the number of events that one relay has sent.
func count(b *broker.Server, relay string) (n int) {
	for _, a := range b.Arrivals("everything", "out") {
		if a.From == relay {
			n++
		}
	}
	return n
}

// from waits for the given number of further events of one relay.
func from(t *testing.T, b *broker.Server, relay string, more int) {
	t.Helper()
	until := count(b, relay) + more
	eventually(t, "events of "+relay+" arrive", func() bool { return count(b, relay) >= until })
}

// backAgain waits until two relays are alive.
func backAgain(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tally.Eventually(t, "both relays are there", tally.Holds(pool, `SELECT count(*) = 2 FROM tidemark.relays
		WHERE expires_at > clock_timestamp()`))
}
