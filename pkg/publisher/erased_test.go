package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestAnOutageEndsWithoutWhatWasErasedMeanwhile erases a campaign whose events a publisher has read, and
// could not send.
func TestAnOutageEndsWithoutWhatWasErasedMeanwhile(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var mu sync.Mutex
	down, tried := true, ""
	sink := &memory.Sink{OnPublish: func(_ context.Context, events []publisher.Event) error {
		mu.Lock()
		defer mu.Unlock()
		if !down {
			return nil
		}
		tried = ""
		for _, e := range events {
			tried += string(e.Payload)
		}
		return publisher.Outage(errors.New("away"))
	}}
	appendTo(t, pool, 3, "oak", "elm")
	start(t, quick(pool, sink))
	is := func(want string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return tried == want
		}
	}
	const notes = `{"n": 0}{"n": 1}{"n": 2}`
	eventually(t, "all events are tried", is(notes+notes))
	_, err := erasure.Erase(t.Context(), pool, erasure.Request{Campaign: "oak", By: "anna", Reason: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the erased events have no payload", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.HasPrefix(tried, "{}{}{}"+notes)
	})
	mu.Lock()
	down = false
	mu.Unlock()
	eventually(t, "all have arrived", func() bool { return len(sink.Received()) == 7 })
	for i, e := range sink.Received() {
		if want := []int64{1, 2, 3, 1, 2, 3, 4}[i]; e.Seq != want || e.CampaignID == "oak" && i < 3 && string(e.Payload) != "{}" {
			t.Errorf("%s %d came with %s, want seq %d", e.CampaignID, e.Seq, e.Payload, want)
		}
	}
}

// TestAnErrorThatIsWrittenAfterAnErasureTellsNothing has a sink that takes so long to refuse an event that it is
// erased meanwhile: at the first attempt, at a later one, and where the event is left out.
func TestAnErrorThatIsWrittenAfterAnErasureTellsNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		erasedAt int64 // attempt
		policy   publisher.Policy
	}{
		"at once": {1, publisher.ParkCampaign}, "later": {2, publisher.ParkCampaign}, "left out": {1, publisher.ParkEvent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			var attempts atomic.Int64
			sink := &memory.Sink{OnPublish: func(ctx context.Context, events []publisher.Event) error {
				n := attempts.Add(1)
				if n > tt.erasedAt {
					return nil
				}
				refused := &publisher.BatchError{}
				for i, e := range events {
					refused.Failures = append(refused.Failures, publisher.Failure{
						Index: i, Permanent: n == tt.erasedAt, Err: fmt.Errorf("no, planted %s", e.Payload),
					})
				}
				if n < tt.erasedAt {
					return refused
				}
				_, err := erasure.Erase(ctx, pool, erasure.Request{Campaign: "oak", By: "anna", Reason: "a test"})
				if err != nil {
					return err
				}
				return refused
			}}
			appendTo(t, pool, 1, "oak")
			start(t, quick(pool, sink, func(_ *publisher.Config, p *publisher.Publisher) { p.OnRefusal = tt.policy }))
			eventually(t, "the event is parked", func() bool {
				return query[int64](t, pool, `SELECT count(*) FROM tidemark.parked WHERE status = 'parked'`) == 1
			})
			if got := query[string](t, pool, `SELECT error_message FROM tidemark.parked`); got != "erased" {
				t.Errorf("its error is %q", got)
			}
		})
	}
}

// TestTheLastErrorOfAPublisherIsErased has a sink whose errors tell of an event: one that is away, and one that
// refuses and so ends its publisher.
func TestTheLastErrorOfAPublisherIsErased(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]publisher.Policy{"away": publisher.ParkCampaign, "refuses": publisher.Block} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			var attempts atomic.Int64
			sink := &memory.Sink{OnPublish: func(ctx context.Context, _ []publisher.Event) error {
				if attempts.Add(1) > 1 {
					<-ctx.Done()
					return publisher.Outage(ctx.Err())
				}
				err := errors.New("no, planted")
				if policy == publisher.Block {
					return &publisher.BatchError{Failures: []publisher.Failure{{Permanent: true, Err: err}}}
				}
				return publisher.Outage(err)
			}}
			appendTo(t, pool, 1, "oak")
			start(t, quick(pool, sink, func(_ *publisher.Config, p *publisher.Publisher) { p.OnRefusal = policy }))
			const told = `SELECT count(*) FROM tidemark.readers r WHERE r::text LIKE '%planted%'`
			eventually(t, "the publisher's error is kept", func() bool { return query[int64](t, pool, told) == 1 })
			if _, err := erasure.Erase(t.Context(), pool, erasure.Request{Campaign: "oak", By: "anna", Reason: "a test"}); err != nil {
				t.Fatal(err)
			}
			if got := query[string](t, pool, `SELECT status || ' ' || last_error || ' ' || coalesce(reason, '') FROM tidemark.readers`); strings.Contains(got, "planted") ||
				policy == publisher.Block && got != "FAILED erased erased" {
				t.Errorf("the publisher is %s", got)
			}
		})
	}
}
