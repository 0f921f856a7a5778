package publisher_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
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

// A publisher's configuration may change, and the publisher may be missing from it for a time. Its
// pairs keep their positions and do not count as new when it returns.
func TestAPairThatIsKnownGoesOnWhereItWasWhateverTheConfigurationSays(t *testing.T) {
	t.Parallel()
	pool, before, after, other := pgtest.New(t), &memory.Sink{}, &memory.Sink{}, &memory.Sink{}
	appendTo(t, pool, 3, "a")
	stop := start(t, quick(pool, before))
	eventually(t, "the first have arrived", func() bool { return position(t, pool) == 3 })
	stop()
	appendTo(t, pool, 3, "a")
	stop = start(t, quick(pool, other, func(_ *publisher.Config, p *publisher.Publisher) { p.Name = "another" }))
	eventually(t, "the other one publishes", func() bool { return len(other.Received()) == 6 })
	stop()
	if at := position(t, pool); at != 3 {
		t.Errorf("out of the configuration it has moved to %d", at)
	}
	start(t, quick(pool, after, func(_ *publisher.Config, p *publisher.Publisher) {
		p.Start, p.BatchSize = publisher.Start{End: true}, 1
	}))
	eventually(t, "it goes on, to another sink", func() bool { return position(t, pool) == 6 })
	if got := fmt.Sprint(of(after, "a")); got != "[4 5 6]" || len(before.Received()) != 3 {
		t.Errorf("%s have arrived at the new sink, and %d at the old one", got, len(before.Received()))
	}
}
