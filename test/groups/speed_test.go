package groups_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestConsumerGroupsOfDifferentSpeedsDoNotHoldEachOtherUp(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	url := pool.Config().ConnString()
	var blocked atomic.Bool
	proceed := make(chan struct{})
	block := func(ctx context.Context, _ *projection.Group, _ event.Event) error {
		blocked.Store(true)
		select {
		case <-proceed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	start(t, url, "slow", tally.Entries("slow_", block), tally.Tallies("slow_"))
	start(t, url, "fast", tally.Entries("fast_", nil), tally.Tallies("fast_"))
	for _, name := range []string{"slow", "fast"} {
		tally.Eventually(t, "the group is registered", tally.Holds(pool, `SELECT EXISTS (SELECT
			FROM tidemark.consumer_groups WHERE name = $1 AND state = 'ready')`, name))
	}
	load := tally.Load{Pool: pool, Writers: 2, Campaigns: 20, Pause: time.Millisecond}.Start(t)
	tally.Eventually(t, "the slow group is blocked and there is a load", func(context.Context) (bool, error) {
		return blocked.Load() && load.Appended() > 200, nil
	})
	load.Stop(t, pool)

	tally.Settle(t, pool, "fast")
	tally.Verify(t, pool, "fast_")
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM slow_entries`); n != 0 {
		t.Errorf("the blocked group has applied %d events", n)
	}
	close(proceed)
	tally.Settle(t, pool, "slow")
	tally.Verify(t, pool, "slow_")
}
