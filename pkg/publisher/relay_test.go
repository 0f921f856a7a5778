package publisher_test

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/pgtest"
	"github.com/tidemark-go/tidemark/internal/sinks/memory"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

func TestRelayPublishesWhatIsThereAndWhatComes(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	appendTo(t, pool, 700, "a", "b", "c")
	stop := start(t, quick(pool, sink))
	eventually(t, "what was there has arrived", func() bool { return hasAll(sink.Received(), committed(t, pool)) })
	appendTo(t, pool, 3, "a", "d")
	eventually(t, "what came has arrived", func() bool { return hasAll(sink.Received(), committed(t, pool)) })
	stop()
	inOrder(t, sink.Received())
	if n := len(sink.Received()); n != 2106 {
		t.Errorf("%d events have arrived, 2106 were appended", n)
	}
	if got := position(t, pool); got != 2106 {
		t.Errorf("the position is %d", got)
	}
	if n := query[int](t, pool, "SELECT count(*) FROM tidemark.relays"); n != 0 {
		t.Errorf("%d relays are left", n)
	}
	start(t, quick(pool, sink))
	appendTo(t, pool, 1, "a")
	eventually(t, "it goes on where it was", func() bool { return hasAll(sink.Received(), committed(t, pool)) })
	if n := len(sink.Received()); n != 2107 {
		t.Errorf("%d events have arrived, 2107 were appended", n)
	}
}

func TestAnIdleRelayIsWokenAtOnce(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	start(t, quick(pool, sink, func(c *publisher.Config, _ *publisher.Publisher) { c.PollInterval = time.Minute }))
	for i := range 5 {
		eventually(t, "it waits", func() bool {
			return query[int64](t, pool, "SELECT last_value FROM tidemark.waiting") > time.Now().UnixMilli()
		})
		appendTo(t, pool, 1, "a")
		eventually(t, "the event has arrived", func() bool { return len(sink.Received()) == i+1 })
	}
}
