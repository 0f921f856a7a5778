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

// trouble is a disturbance of the broker or of the connection to it.
type trouble struct {
	begin func(t *testing.T, p *proxy.Proxy, b *broker.Server)
	end   func(t *testing.T, p *proxy.Proxy, b *broker.Server)
	// passable: events still get through, if slowly. Otherwise the trouble ends once the pair has
	// failed several times.
	passable bool
	// flaky: some of the events sent one after another get through, so the others may count as
	// refused, but not for long enough to be parked.
	flaky bool
	// silent: nothing is answered in time. The timeout must be short for this, and a busy machine
	// may exceed it at any moment.
	silent bool
}

func healed(t *testing.T, p *proxy.Proxy, _ *broker.Server) { p.Heal(t) }

// through adds a toxic to one direction.
func through(kind, direction string, attributes map[string]int) func(*testing.T, *proxy.Proxy, *broker.Server) {
	return func(t *testing.T, p *proxy.Proxy, _ *broker.Server) { p.Toxic(t, kind, direction, attributes) }
}

func TestABrokerInTroubleGetsEveryEventInTheEnd(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]trouble{
		"stopped": {
			begin: func(_ *testing.T, p *proxy.Proxy, _ *broker.Server) { p.Stop() },
			end:   func(t *testing.T, p *proxy.Proxy, _ *broker.Server) { p.Open(t) },
		},
		"slow": {
			begin: through("latency", "upstream", map[string]int{"latency": 30, "jitter": 20}),
			end:   healed, passable: true,
		},
		"narrow": {
			begin: through("bandwidth", "upstream", map[string]int{"rate": 100}), end: healed,
			passable: true,
		},
		"taking_nothing": {
			begin: func(_ *testing.T, _ *proxy.Proxy, b *broker.Server) { b.Down("closed") },
			end:   func(_ *testing.T, _ *proxy.Proxy, b *broker.Server) { b.Down("") },
		},
		"acknowledging_late": {
			begin: through("latency", "downstream", map[string]int{"latency": 900}),
			end:   healed, silent: true,
		},
		"acknowledging_never": {
			begin: through("timeout", "downstream", map[string]int{"timeout": 0}), end: healed,
			silent: true,
		},
		"hearing_nothing": {
			begin: through("timeout", "upstream", map[string]int{"timeout": 0}), end: healed,
			silent: true,
		},
		"cut_off_in_the_midst_of_batch": {
			begin: through("limit_data", "upstream", map[string]int{"bytes": 3000}),
			end:   healed, passable: true, flaky: true,
		},
		"reset_by_its_peer": {
			begin: through("reset_peer", "downstream", map[string]int{"timeout": 0}),
			end:   healed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, b := pgtest.New(t), broker.Start(t)
			watchParked(t, pool)
			p := proxy.Start(t, b.Addr())
			run(t, quick(t, pool, p.Listen, func(_ *publisher.Config, p *publisher.Publisher) {
				if trouble.silent {
					p.Timeout = 600 * time.Millisecond
				}
			}))
			load := write(t, pool, 3, 5*time.Millisecond)
			arrive(t, b, 100)
			trouble.begin(t, p, b)
			if trouble.passable {
				arrive(t, b, 300)
			} else {
				fails(t, pool, 3)
			}
			if n := load.committed.Load(); n == 0 {
				t.Error("nothing was appended meanwhile")
			}
			trouble.end(t, p, b)
			arrive(t, b, 100)
			load.stop()
			verify(t, pool, b, everything())
			tally.Eventually(t, "the pair has no error any more", tally.Holds(pool, `SELECT error_count = 0
				AND status = 'ACTIVE' FROM tidemark.readers`))
			switch {
			case trouble.flaky:
			case trouble.silent:
				if n := tally.Value[int](t, pool, `SELECT count(*) FROM parked_ever WHERE status = 'parked'`); n > 0 {
					t.Errorf("%d events were parked", n)
				}
			default:
				nothingParked(t, pool)
			}
		})
	}
}

// arrive waits for the given number of further events.
func arrive(t *testing.T, b *broker.Server, more int) {
	t.Helper()
	until := b.Taken() + more
	eventually(t, "events arrive", func() bool { return b.Taken() >= until })
}

// fails waits until the pair has that many consecutive failures and shows the last error.
func fails(t *testing.T, pool *pgxpool.Pool, times int) {
	t.Helper()
	tally.Eventually(t, "the pair says that it fails", tally.Holds(pool, `SELECT error_count >= $1 AND last_error <> ''
		AND status = 'ACTIVE' FROM tidemark.readers`, times))
}
