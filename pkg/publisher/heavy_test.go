package publisher_test

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/test/support/heavy"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestAnEventThatTakesLongToReadHoldsUpNoPairAtAnotherPlace has a pair just behind the event, and one that
// reads it again with more time. The session's statement_timeout is too short for it.
func TestAnEventThatTakesLongToReadHoldsUpNoPairAtAnotherPlace(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ahead, late := &memory.Sink{}, &memory.Sink{}
	cfg := quick(pool, ahead)
	stop := start(t, cfg)
	appendTo(t, pool, 3, "a")
	eventually(t, "all is published", func() bool { return len(ahead.Received()) == 3 })
	stop()
	event := heavy.Block(t, pool, "a", 2)
	heavy.Limit(t, pool, time.Second)
	other := cfg.Publishers[0]
	other.Name, other.Sink = "late", late
	cfg.Publishers = append(cfg.Publishers, other)
	start(t, cfg)
	eventually(t, "the read is repeated", func() bool { return event.Reads(t) > 1 && len(late.Received()) == 1 })
	appendTo(t, pool, 1, "b")
	eventually(t, "the pair ahead goes on", func() bool { return len(ahead.Received()) == 4 })
	if n := len(late.Received()); n != 1 {
		t.Errorf("%d events before and after the heavy one are published, want 1", n)
	}
	event.Release(t)
	eventually(t, "the pair that is late has all", func() bool { return len(late.Received()) == 4 })
}
