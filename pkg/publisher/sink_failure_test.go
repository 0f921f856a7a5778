package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// If a sink only returns an error, the relay finds the event at fault itself.
func TestTheEventAtFaultIsFoundWithoutTheSinksHelp(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	sink := &memory.Sink{OnPublish: func(_ context.Context, events []publisher.Event) error {
		for _, e := range events {
			if e.CampaignID == "c0005" && e.Seq == 2 {
				return errors.New("something is wrong")
			}
		}
		return nil
	}}
	appendTo(t, pool, 3, campaigns(10)...)
	start(t, quick(pool, unhealthyless{sink}, func(_ *publisher.Config, p *publisher.Publisher) {
		p.Attempts, p.BackoffMax = 3, 5*time.Millisecond
	}))
	eventually(t, "all others have arrived", func() bool { return len(sink.Received()) == 28 })
	eventually(t, "it is parked", func() bool {
		return query[int](t, pool,
			"SELECT count(*) FROM tidemark.parked WHERE status = 'parked' AND campaign_id = 'c0005' AND seq = 2 AND "+
				"attempt_count = 3") == 1
	})
}

func TestASinkThatWantsNoMorePausesThePair(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	sink := &memory.Sink{Down: func() error { return publisher.Pause(errors.New("gone")) }}
	appendTo(t, pool, 3, "a")
	start(t, quick(pool, sink))
	eventually(t, "the pair is paused", func() bool {
		return query[int](t, pool,
			"SELECT count(*) FROM tidemark.readers WHERE status = 'PAUSED' AND reason = 'gone' AND expires_at = "+
				"'-infinity'") == 1
	})
}

func TestASinkThatPanicsHasFailed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var calls atomic.Int64
	sink := &memory.Sink{OnPublish: func(context.Context, []publisher.Event) error {
		if calls.Add(1) < 3 {
			panic("no")
		}
		return nil
	}}
	appendTo(t, pool, 3, "a")
	start(t, quick(pool, sink))
	eventually(t, "all has arrived", func() bool { return len(sink.Received()) == 3 })
}

// limited accepts five events a call and then asks for a pause. It counts the calls that come too
// soon.
type limited struct {
	*memory.Sink
	tooSoon atomic.Int64
	until   atomic.Int64
}

func (s *limited) Publish(ctx context.Context, events []publisher.Event) error {
	if time.Now().UnixNano() < s.until.Load() {
		s.tooSoon.Add(1)
	}
	taken := min(len(events), 5)
	if err := s.Sink.Publish(ctx, events[:taken]); err != nil || taken == len(events) {
		return err
	}
	batch := &publisher.BatchError{}
	for i := taken; i < len(events); i++ {
		batch.Failures = append(batch.Failures, publisher.Failure{
			Index: i,
			Err:   fmt.Errorf("enough: %w", publisher.ErrNotTried),
		})
	}
	const rest = 150 * time.Millisecond
	s.until.Store(time.Now().Add(rest).UnixNano())
	return publisher.RetryAfter(batch, rest)
}

func TestASinkThatFailsHalfWayIsLeftAloneAndNothingItTookIsSentAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	sink := &limited{Sink: &memory.Sink{}}
	appendTo(t, pool, 2, campaigns(12)...)
	start(t, quick(pool, sink, func(_ *publisher.Config, p *publisher.Publisher) { p.Attempts = 1 }))
	eventually(t, "all has arrived", func() bool { return position(t, pool) == 24 })
	seen := map[string]bool{}
	for _, r := range sink.Received() {
		if seen[r.ID.String()] {
			t.Errorf("event %d of %s came twice", r.Seq, r.CampaignID)
		}
		seen[r.ID.String()] = true
	}
	if len(seen) != 24 || sink.tooSoon.Load() > 0 {
		t.Errorf("%d of 24 events came, and it was not left alone %d times", len(seen), sink.tooSoon.Load())
	}
	if n := query[int](t, pool, "SELECT count(*) FROM tidemark.parked"); n != 0 {
		t.Errorf("%d events are parked", n)
	}
}
