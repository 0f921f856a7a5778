package publisher

import (
	"testing"

	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/pkg/event"
)

func TestARelayRemembersTheLastEventsItHasSent(t *testing.T) {
	t.Parallel()
	var m recent
	for i := range int64(10_000) {
		if m.add(ledger.Sent{Position: i}, rememberEach); len(m) >= 2*rememberEach {
			t.Fatalf("%d events are remembered, where %d must be", len(m), rememberEach)
		}
		if n := int64(len(m)); m[n-1].Position != i || n < min(i+1, rememberEach) || m[0].Position != i+1-n {
			t.Fatalf("after event %d, events %d to %d are remembered", i, m[0].Position, m[n-1].Position)
		}
	}
}

// What a draining campaign or a round of a dropped pair has sent counts as sent too.
func TestWhatWasSentIsRememberedWhateverBecameOfThePair(t *testing.T) {
	t.Parallel()
	r, key := alone(t, sinkFunc(accepts))
	p := claimed(r, key, 0)
	p.instance, r.instance, r.journals = "old", "new", 1
	p.pending = []Event{{Event: event.Event{Position: 1}}, {Event: event.Event{Position: 2}}}
	delete(r.pairs, key)
	r.dispatcher.finished(p, &outcome{sent: []bool{true, false}})
	r.drainer.returned(p, &returning{took: recent{{Position: 3}}})
	if m := r.history.sent[key]; len(m) != 2 || m[0].Position != 1 || m[1].Position != 3 || !r.history.doubtful {
		t.Errorf("%+v are remembered, to be looked up: %v", m, r.history.doubtful)
	}
}
