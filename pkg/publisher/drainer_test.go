package publisher_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// The pair's rounds skip events appended to a campaign that drains. The drain must send them.
func TestWhatIsAppendedWhileACampaignIsBroughtBackIsNotLost(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	sink, lift := poison(true)
	begun, release := make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	sink.OnPublish = func(ctx context.Context, events []publisher.Event) error {
		if events[0].CampaignID == "c0500" && held.CompareAndSwap(true, false) {
			close(begun)
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return nil
	}
	appendTo(t, pool, 3, "a", "c0500")
	start(t, quick(pool, sink))
	eventually(t, "it is parked", func() bool {
		return position(t, pool) == 6 && query[int](t, pool,
			"SELECT count(*) FROM tidemark.parked WHERE status = 'parked'") == 1
	})
	lift()
	held.Store(true)
	if _, err := publications.Retry(t.Context(), pool, publications.ParkedFilter{}, anna()); err != nil {
		t.Fatal(err)
	}
	<-begun
	appendTo(t, pool, 2, "c0500", "a")
	eventually(t, "the pair has passed by what was appended", func() bool { return position(t, pool) == 10 })
	close(release)
	eventually(t, "all of the campaign has arrived", func() bool { return fmt.Sprint(of(sink, "c0500")) == "[1 2 3 4 5]" })
}

// An event after a retried one still has all its attempts.
func TestAttemptsAreThoseOfTheEvent(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var second, third atomic.Int64
	sink := &memory.Sink{Refuse: func(e publisher.Event) (error, bool) {
		switch {
		case e.CampaignID == "a":
		case e.Seq == 2 && second.Add(1) <= 2, e.Seq == 3 && third.Add(1) > 0:
			return errRefused, false
		}
		return nil, false
	}}
	appendTo(t, pool, 3, "a", "b")
	start(t, quick(pool, sink, func(_ *publisher.Config, p *publisher.Publisher) { p.Attempts = 3 }))
	eventually(t, "the third event is parked", func() bool {
		return query[int](t, pool, "SELECT count(*) FROM tidemark.parked WHERE status = 'parked' AND seq = 3") == 1
	})
	if n := query[int](t, pool, "SELECT attempt_count FROM tidemark.parked"); n != 3 || third.Load() != 3 {
		t.Errorf("it was sent %d times, and has %d attempts; it may have 3", third.Load(), n)
	}
}
