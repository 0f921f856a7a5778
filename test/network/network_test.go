package network_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/proxy"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestMain(m *testing.M) {
	toxics.Register("lose_commit", new(loseCommit))
	toxics.Register("cut", new(cut))
	toxics.Register("silence", new(silence))
	pgtest.Main(m, proxy.MayStay()...)
}

const group = "default"

func startWorker(t *testing.T, url, name string) (stop func()) {
	t.Helper()
	return tally.Run(t, projector.Config{
		Pool: tally.HastyPool(t, url, name, 6, time.Second), Projections: tally.Both(), LeaseTTL: time.Second,
		PollInterval: 100 * time.Millisecond, Concurrency: 3, GroupEvents: 50,
	})
}

// appended waits until a load has appended the given number of further events.
func appended(t *testing.T, load *tally.Running, more int64) {
	t.Helper()
	before := load.Appended()
	tally.Eventually(t, "appends go on", func(context.Context) (bool, error) {
		return load.Appended() >= before+more, nil
	})
}

func TestWorkersBehindABadNetworkApplyExactlyOnce(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *proxy.Proxy){
		"that_is_slow": func(t *testing.T, p *proxy.Proxy) {
			p.Toxic(t, "latency", "upstream", map[string]int{"latency": 5, "jitter": 5})
			p.Toxic(t, "latency", "downstream", map[string]int{"latency": 5, "jitter": 5})
		},
		"that_cuts_requests_at_any_byte": func(t *testing.T, p *proxy.Proxy) {
			p.Toxic(t, "cut", "upstream", map[string]int{"bytes": 40_000})
		},
		"that_cuts_answers_at_any_byte": func(t *testing.T, p *proxy.Proxy) {
			p.Toxic(t, "cut", "downstream", map[string]int{"bytes": 30_000})
		},
		"that_is_late_to_say_that_it_closed": func(t *testing.T, p *proxy.Proxy) {
			p.Toxic(t, "cut", "downstream", map[string]int{"bytes": 30_000})
			p.Toxic(t, "slow_close", "downstream", map[string]int{"delay": 300})
			p.Toxic(t, "slow_close", "upstream", map[string]int{"delay": 300})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			p, url := proxy.ForPostgres(t, pool)
			spoil(t, p)
			underLoad(t, pool, url, func(load *tally.Running) { appended(t, load, 1500) })
		})
	}
	t.Run("that_is_gone_now_and_then", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p, url := proxy.ForPostgres(t, pool)
		underLoad(t, pool, url, func(load *tally.Running) {
			for range 5 {
				appended(t, load, 100)
				p.Stop()
				appended(t, load, 100)
				p.Open(t)
			}
		})
	})
	t.Run("that_loses_the_answers_to_commits", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		p, url := proxy.ForPostgres(t, pool)
		const times = 20
		loser := p.Toxic(t, "lose_commit", "downstream", map[string]int{"times": times}).(*loseCommit)
		underLoad(t, pool, url, func(*tally.Running) {
			tally.Eventually(t, "answers are lost", func(context.Context) (bool, error) {
				return loser.lost.Load() >= times, nil
			})
		})
	})
}

// underLoad makes two workers behind the proxy apply the events of writers with a good connection
// until during returns, then verifies the result.
func underLoad(t *testing.T, pool *pgxpool.Pool, url string, during func(*tally.Running)) {
	t.Helper()
	failures := tally.WatchFailures(t, pool)
	startWorker(t, url, "one")
	startWorker(t, url, "other")
	tally.Eventually(t, "the workers are registered", tally.Holds(pool, `SELECT EXISTS (SELECT
		FROM tidemark.consumer_groups WHERE state = 'ready')`))
	load := tally.Load{Pool: pool, Writers: 4, Campaigns: 30, Pause: 2 * time.Millisecond}.Start(t)
	during(load)
	load.Stop(t, pool)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
	if n := failures(); n > 0 {
		t.Errorf("%d failures were put down to a projection", n)
	}
}

// TestAWorkerWhoseConnectionsFallSilentIsReplacedAndComesBack silences a worker in the middle of
// its only group.
func TestAWorkerWhoseConnectionsFallSilentIsReplacedAndComesBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p, url := proxy.ForPostgres(t, pool)
	reached, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	halt := func(context.Context, *projection.Group, event.Event) error {
		once.Do(func() { close(reached); <-proceed })
		return nil
	}
	stopSilenced := tally.Run(t, projector.Config{
		Pool:        tally.HastyPool(t, url, "silenced", 4, time.Second),
		Projections: []projection.Projection{tally.Entries("", halt), tally.Tallies("")},
		LeaseTTL:    time.Second, PollInterval: 100 * time.Millisecond, Concurrency: 1,
	})
	tally.Append(t, pool, "a", 1, 2, 3)
	<-reached
	upstream, downstream := p.Toxic(t, "silence", "upstream", nil).(*silence),
		p.Toxic(t, "silence", "downstream", nil).(*silence)
	close(proceed)
	stop := startWorker(t, pool.Config().ConnString(), "replacement")
	tally.Append(t, pool, "b", 1, 2, 3)
	tally.Settle(t, pool, group)
	stop()

	upstream.healed.Store(true)
	downstream.healed.Store(true)
	tally.Append(t, pool, "a", 4)
	tally.Settle(t, pool, group)
	tally.Verify(t, pool, "")
	stopSilenced()
	p.Heal(t)
	p.Stop() // otherwise the silent connections would take 15 seconds to close
}
