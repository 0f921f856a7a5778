package publishertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Target is a sink and its other side.
type Target struct {
	Sink publisher.Sink

	// Received returns all that has arrived, in order, at least for each campaign. Required.
	Received func(ctx context.Context) ([]Received, error)

	// Poison makes an event one that the other side or the encoder refuses for good, e.g. by size.
	// nil: none.
	Poison func(e *publisher.Event)

	// Stall makes the other side accept connections but not answer until resume. nil: it cannot.
	Stall func() (resume func())

	// Stop stops the other side until start is called. nil: it cannot.
	Stop func() (start func())
}

// Received is an event that has arrived.
type Received struct {
	EventID    uuid.UUID
	CampaignID string // required: an id is unique only within its campaign
	Body       []byte // nil: not compared
}

func (r Received) identity() string {
	e := event.Event{ID: r.EventID, CampaignID: r.CampaignID}
	return e.Identity()
}

// Run runs the rules, each against its own target, which open returns with nothing received yet. Run
// closes the target's Sink. encoder must be the sink's own: bodies are compared with its output.
func Run(t *testing.T, encoder publisher.Encoder, open func(t *testing.T) Target) {
	t.Helper()
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			target := open(t)
			if target.Sink == nil || target.Received == nil {
				t.Fatal("a target needs a Sink and Received")
			}
			if target.Sink.Name() == "" {
				t.Error("the sink has no name")
			}
			r.check(&kit{
				TB: t, Target: target, encoder: encoder, patience: patience, promptly: promptly,
				sent: map[string]publisher.Event{},
			})
		})
	}
}

type kit struct {
	testing.TB
	Target
	encoder            publisher.Encoder
	patience, promptly time.Duration
	sent               map[string]publisher.Event // by identity
}

const (
	// patience is how long published events may take to arrive.
	patience = time.Minute
	// promptly is how soon Publish must return after its context has ended.
	promptly = 20 * time.Second
)

// events returns the next events of campaigns, interleaved.
func (k *kit) events(each, from int, campaigns ...string) (events []publisher.Event) {
	for i := range each {
		for c, campaign := range campaigns {
			seq := int64(from + i)
			e := publisher.Event{Topic: "orders", Event: event.Event{
				ID: uuid.Must(uuid.NewV7()), Type: "order_placed", Version: 2, Intent: event.ProjectionAndReplay,
				Actor:         "anna \"the quick\" ä",
				AggregateType: "order", AggregateID: fmt.Sprint(seq), Tags: []string{"customer=7"},
				Payload:    fmt.Appendf(nil, `{"n": %d, "text": "zażółć \u0001"}`, seq),
				Metadata:   []byte(`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`),
				OccurredAt: time.Date(2026, 2, 3, 4, 5, 6, 789000, time.UTC),
				RecordedAt: time.Date(2026, 2, 3, 4, 5, 7, 0, time.UTC),
				CampaignID: campaign, Seq: seq, Position: seq*100 + int64(c),
			}}
			k.remember(e)
			events = append(events, e)
		}
	}
	return events
}

func (k *kit) remember(e publisher.Event) { k.sent[e.Identity()] = e }

func (k *kit) publish(events []publisher.Event) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), k.patience)
	defer cancel()
	if err := k.Sink.Publish(ctx, events); err != nil {
		k.Fatalf("publish %d events: %v", len(events), err)
	}
}

// await waits until all events have arrived, and returns everything received.
func (k *kit) await(events []publisher.Event) []Received {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), k.patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		received, err := k.Received(ctx)
		if err != nil {
			k.Fatalf("what has arrived: %v", err)
		}
		arrived := map[string]bool{}
		for _, r := range received {
			arrived[r.identity()] = true
		}
		missing := 0
		for _, e := range events {
			if !arrived[e.Identity()] {
				missing++
			}
		}
		if missing == 0 {
			return received
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			k.Fatalf("%d of %d events have not arrived", missing, len(events))
		}
	}
}

// inOrder checks that everything received was sent, unchanged, and first arrived in campaign order.
func (k *kit) inOrder(received []Received) {
	k.Helper()
	last, seen := map[string]int64{}, map[string]bool{}
	for _, r := range received {
		e, ok := k.sent[r.identity()]
		switch {
		case !ok:
			k.Errorf("event %s of campaign %q arrived and was never sent", r.EventID, r.CampaignID)
			continue
		case r.Body != nil && string(r.Body) != string(k.encoder.AppendBody(nil, &e)):
			k.Errorf("event %s arrived with the body\n%s, it was sent with\n%s", e.ID, r.Body, k.encoder.AppendBody(nil, &e))
		case !seen[r.identity()] && e.Seq <= last[e.CampaignID]:
			k.Errorf("event %d of campaign %s arrived after event %d", e.Seq, e.CampaignID, last[e.CampaignID])
		}
		if !seen[r.identity()] {
			seen[r.identity()], last[e.CampaignID] = true, e.Seq
		}
	}
}
