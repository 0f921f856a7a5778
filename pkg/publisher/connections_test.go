package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestPairsThatAllWriteAtOnceTakeNoMoreConnectionsThanPromised makes every pair meet a refused
// event while a lock delays the writes about it.
func TestPairsThatAllWriteAtOnceTakeNoMoreConnectionsThanPromised(t *testing.T) {
	t.Parallel()
	const pairs = 3 * publisher.Connections
	pool := pgtest.New(t)
	counted := sized(t, pool, 2*pairs)
	refused := make(chan struct{}, pairs)
	sink := &memory.Sink{OnPublish: func(context.Context, []publisher.Event) error {
		select {
		case refused <- struct{}{}:
		default:
		}
		return &publisher.BatchError{Failures: []publisher.Failure{{Err: errors.New("no"), Permanent: true}}}
	}}
	cfg := publisher.Config{Pool: counted, LeaseTTL: time.Minute, PollInterval: 100 * time.Millisecond}
	p := publisher.Publisher{Name: "out", Sink: sink, Attempts: 1}
	for i := range pairs {
		p.Topics = append(p.Topics, fmt.Sprint("t", i))
		cfg.Topics = append(cfg.Topics, publisher.Topic{Name: p.Topics[i]})
	}
	cfg.Publishers = []publisher.Publisher{p}
	start(t, cfg)
	eventually(t, "the pairs are leased", func() bool {
		return query[int](t, pool, "SELECT count(*) FROM tidemark.readers WHERE expires_at > now()") == pairs
	})
	lock, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), "LOCK TABLE tidemark.parked IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	appendTo(t, pool, 1, "a")
	for range pairs {
		<-refused
	}
	eventually(t, "as many connections wait as may", func() bool {
		return counted.Stat().AcquiredConns() >= publisher.Connections
	})
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is written down", func() bool {
		return query[int](t, pool, "SELECT count(*) FROM tidemark.parked WHERE status = 'parked'") == pairs
	})
	if n := counted.Stat().NewConnsCount(); n != publisher.Connections {
		t.Errorf("%d connections were opened, %d are promised", n, publisher.Connections)
	}
}
