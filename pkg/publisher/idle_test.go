package publisher_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// labelled returns the number of goroutines with a label.
func labelled(t *testing.T, label string) (n int) {
	t.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	count := regexp.MustCompile(`^(\d+) @`)
	for entry := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(entry, label) {
			continue
		}
		for line := range strings.SplitSeq(entry, "\n") {
			if found := count.FindStringSubmatch(line); found != nil {
				alike, err := strconv.Atoi(found[1])
				if err != nil {
					t.Fatal(err)
				}
				n += alike
			}
		}
	}
	return n
}

// Idle pairs start no goroutines: a relay with 500 has as many as a relay with one.
func TestPairsThatWaitHaveNoGoroutines(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	cfg := publisher.Config{Pool: sized(t, pool, publisher.Connections), LeaseTTL: time.Minute}
	p := publisher.Publisher{Name: "out", Sink: sink}
	for i := range 500 {
		p.Topics = append(p.Topics, fmt.Sprint("t", i))
		cfg.Topics = append(cfg.Topics, publisher.Topic{Name: p.Topics[i]})
	}
	cfg.Publishers = []publisher.Publisher{p}
	const label = "of the relay whose goroutines are counted"
	// Goroutines that the relay starts inherit the label.
	pprof.Do(t.Context(), pprof.Labels("goroutine", label), func(context.Context) { start(t, cfg) })
	appendTo(t, pool, 1, "a")
	eventually(t, "all pairs have published", func() bool { return len(sink.Received()) == 500 })
	if labelled(t, label) == 0 {
		t.Fatal("no goroutine has the label: nothing is counted")
	}
	eventually(t, "it has few goroutines", func() bool { return labelled(t, label) < 20 })
}

// A transaction that stays open while a broker responds slowly would hold back vacuum for the whole
// database.
func TestNoTransactionIsOpenWhileASinkIsAsked(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cfg := pool.Config().Copy()
	cfg.ConnConfig.RuntimeParams["application_name"] = "a relay"
	relays, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(relays.Close)
	sink := &memory.Sink{OnPublish: func(ctx context.Context, _ []publisher.Event) error {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		asked := query[time.Time](t, pool, "SELECT clock_timestamp()")
		const open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'a " +
			"relay' AND xact_start < $1"
		for query[int](t, pool, open, asked) > 0 { // another job of the relay may have one open, which ends without the sink
			select {
			case <-ctx.Done():
				t.Error("a transaction that was open when the sink was asked stayed open until it was asked no more")
				return nil
			case <-tick.C:
			}
		}
		return nil
	}}
	appendTo(t, pool, 50, "a", "b", "c")
	start(t, quick(relays, sink, func(_ *publisher.Config, p *publisher.Publisher) {
		p.BatchSize, p.Timeout = 20, 10*time.Second
	}))
	eventually(t, "all has arrived", func() bool { return hasAll(sink.Received(), committed(t, pool)) })
}
