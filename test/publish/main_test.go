package publish_test

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/app"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/broker"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/proxy"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// workerEnv turns the test binary into a worker that knows the tests' broker.
const workerEnv = "TIDEMARK_TEST_PUBLISHING_WORKER"

// parallel limits the number of concurrent tests, which wait for leases to expire more than for a
// processor.
const parallel = 4

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		go func() { // exits when the test process is gone, however it ended
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(3)
		}()
		os.Exit(app.Main(app.Options{Name: "worker", Sinks: []publisher.Kind{broker.Kind()}}))
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
		panic(err)
	}
	pgtest.Main(m, proxy.MayStay()...)
}

// topics returns a topic with all events, and one with a part of them.
func topics() []publisher.Topic {
	return []publisher.Topic{{Name: "everything"}, {Name: "told", Filter: publisher.Filter{EventTypes: []string{"told"}}}}
}

// everything returns the key of [quick]'s pair.
func everything() publications.Key { return publications.Key{Topic: "everything", Publisher: "out"} }

func anna() publications.Act { return publications.Act{By: "anna", Reason: "she said so"} }

// quick configures a relay with one pair, all events to the broker at addr, and delays suited to
// tests. Its timeout is long enough for a busy machine, because an event that gets no answer in
// time when it is sent alone is blamed.
func quick(
	t *testing.T, pool *pgxpool.Pool, addr string, change ...func(*publisher.Config, *publisher.Publisher),
) publisher.Config {
	t.Helper()
	sink := &broker.Sink{Addr: addr, Publisher: "out"}
	p := publisher.Publisher{
		Name: "out", Sink: sink, Topics: []string{"everything"}, BatchSize: 20,
		RetryBase: 20 * time.Millisecond, RetryMax: 50 * time.Millisecond, BackoffMax: 100 * time.Millisecond,
		Timeout: time.Minute,
	}
	cfg := publisher.Config{
		Pool: tally.Pool(t, pool.Config().ConnString(), "relay", publisher.Connections+1), Topics: topics(),
		LeaseTTL: time.Second, PollInterval: 100 * time.Millisecond,
		ShutdownTimeout: 5 * time.Second,
	}
	for _, c := range change {
		c(&cfg, &p)
	}
	t.Cleanup(func() { _ = sink.Close() })
	cfg.Publishers = append(cfg.Publishers, p)
	return cfg
}

// run runs a relay until the test ends or stop is called.
func run(t *testing.T, cfg publisher.Config) (stop func()) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	relay, err := publisher.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// eventually waits for a condition that cannot fail.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tally.Eventually(t, what, func(context.Context) (bool, error) { return holds(), nil })
}

// beats waits until all relays have polled the database twice, so that the second poll starts after
// the call.
func beats(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	at := tally.Value[time.Time](t, pool, `SELECT clock_timestamp()`)
	for range 2 {
		tally.Eventually(t, "all relays have looked", tally.Holds(pool, `SELECT bool_and(seen_at > $1) FROM tidemark.relays
			WHERE expires_at > clock_timestamp()`, at))
		at = tally.Value[time.Time](t, pool, `SELECT clock_timestamp()`)
	}
}

// slow returns the address of a broker with delayed answers, so that batches are always in
// progress.
func slow(t *testing.T, b *broker.Server) string {
	t.Helper()
	p := proxy.Start(t, b.Addr())
	p.Toxic(t, "latency", "downstream", map[string]int{"latency": 5, "jitter": 3})
	return p.Listen
}
