package publisher_test

import (
	"context"
	"errors"
	"strings"
	"sync"
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
