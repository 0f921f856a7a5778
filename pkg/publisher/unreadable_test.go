package publisher_test

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/unreadable"
)

// An unreadable event is parked by its position, and every other campaign goes on. Here the search
// for the event takes longer than a lease, and on a slow machine longer than the time limit of a read.
func TestAnEventThatCannotBeReadIsParked(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	appendTo(t, pool, 1, "bad")
	unreadable.Write(t, pool, "bad", "noted", unreadable.Unprintable)
	appendTo(t, pool, 1, "bad", "good")
	start(t, quick(pool, sink, func(cfg *publisher.Config, _ *publisher.Publisher) { cfg.LeaseTTL = time.Second }))
	within(t, 15*time.Minute, "the other campaign is published", func() bool { return len(sink.Received()) == 2 })
	eventually(t, "the event is parked", func() bool {
		return query[int](t, pool,
			"SELECT count(*) FROM tidemark.parked WHERE campaign_id = 'bad' AND seq = 2 AND error_message LIKE '%cannot be "+
				"read%'") == 1
	})
}
