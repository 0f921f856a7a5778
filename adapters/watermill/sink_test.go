package watermill_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	upstream "github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/adapters/watermill"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var (
	errRefused = errors.New("refused")
	errDown    = errors.New("down")
)

// channel is a GoChannel, and what has come out of it. It may be down or stalled, and refuses events of type "poison".
type channel struct {
	*gochannel.GoChannel
	mu       sync.Mutex
	down     bool
	stalled  chan struct{}
	handed   int
	received []publishertest.Received
	metadata message.Metadata
}

func newChannel(t *testing.T, topics ...string) *channel {
	t.Helper()
	c := &channel{GoChannel: gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true},
		upstream.NopLogger{})}
	t.Cleanup(func() { _ = c.Close() })
	for _, topic := range topics {
		messages, err := c.Subscribe(context.WithoutCancel(t.Context()), topic)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for m := range messages {
				c.receive(m)
				m.Ack()
			}
		}()
	}
	return c
}

func (c *channel) receive(m *message.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.metadata = m.Metadata
	e := event.Event{ID: uuid.MustParse(m.Metadata.Get("event_id")), CampaignID: m.Metadata.Get("campaign_id")}
	if m.UUID != e.IdentityUUID().String() { // it is none of those that were sent, and the rules say so
		e.ID = uuid.Nil
	}
	c.received = append(c.received, publishertest.Received{EventID: e.ID, CampaignID: e.CampaignID, Body: m.Payload})
}

func (c *channel) Publish(topic string, messages ...*message.Message) error {
	c.mu.Lock()
	c.handed++
	down, stalled := c.down, c.stalled
	c.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
	if down {
		return errDown
	}
	if messages[0].Metadata.Get("event_type") == "poison" {
		return errRefused
	}
	return c.GoChannel.Publish(topic, messages...)
}

func (c *channel) read(context.Context) ([]publishertest.Received, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.received), nil
}

func (c *channel) stop() (start func()) {
	set := func(down bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.down = down
	}
	set(true)
	return func() { set(false) }
}

func (c *channel) stall() (resume func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled = make(chan struct{})
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(c.stalled)
		c.stalled = nil
	}
}

func open(t *testing.T, cfg watermill.Config) *watermill.Sink {
	t.Helper()
	s, err := watermill.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func refused(err error) (refused, permanent bool) { return errors.Is(err, errRefused), true }

func TestAWatermillPublisherKeepsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	publishertest.Run(t, publisher.Encoder{}, func(t *testing.T) publishertest.Target {
		c := newChannel(t, "events")
		return publishertest.Target{
			Sink: open(t, watermill.Config{Publisher: c, Topic: "events", Refused: refused}), Received: c.read,
			Poison: func(e *publisher.Event) { e.Type = "poison" }, Stall: c.stall, Stop: c.stop,
		}
	})
}

func events(n int) (events []publisher.Event) {
	for i := range n {
		events = append(events, publisher.Event{Event: event.Event{
			ID: uuid.New(), Type: "noted", CampaignID: "c",
			Seq: int64(i + 1), Payload: []byte(`{}`),
		}})
	}
	return events
}

func TestAMessageSaysWhatItIs(t *testing.T) {
	t.Parallel()
	c := newChannel(t, "topic of noted")
	s := open(t, watermill.Config{
		Publisher: c, TopicOf: func(e *publisher.Event) string { return "topic of " + e.Type },
		Encoder: publisher.Encoder{Format: publisher.FormatCloudEvents},
	})
	if err := s.Publish(t.Context(), events(1)); err != nil {
		t.Fatal(err)
	}
	received, _ := c.read(t.Context())
	if len(received) != 1 || c.metadata.Get("content_type") != "application/json" ||
		c.metadata.Get("campaign_id") != "c" {
		t.Errorf("%d messages have arrived, the last with %v", len(received), c.metadata)
	}
}

func TestWithoutAJudgeEveryErrorIsAnOutage(t *testing.T) {
	t.Parallel()
	c := newChannel(t, "events")
	s := open(t, watermill.Config{Publisher: c, Topic: "events"})
	batch := events(4)
	batch[2].Type = "poison"
	err := s.Publish(t.Context(), batch)
	var failed *publisher.BatchError
	if !errors.As(err, &failed) || len(failed.Failures) != 2 ||
		!errors.Is(failed.Failures[0].Err, publisher.ErrNotTried) || !errors.Is(failed.Failures[0].Err, errRefused) ||
		failed.Failures[0].Index != 2 {
		t.Errorf("got %v", err)
	}
	if err := s.Publish(t.Context(), batch[2:]); !errors.Is(err, errRefused) || errors.As(err, &failed) {
		t.Errorf("at the head of a batch: got %v", err)
	}
}

func TestWhatIsLeftBehindIsAwaited(t *testing.T) {
	t.Parallel()
	c := newChannel(t, "events")
	s := open(t, watermill.Config{Publisher: c, Topic: "events"})
	resume := c.stall()
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := s.Publish(ctx, events(2)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
	}
	c.mu.Lock()
	if c.handed != 1 {
		t.Errorf("%d events wait in a publisher that does not answer", c.handed)
	}
	c.mu.Unlock()
	resume()
	if err := s.Publish(t.Context(), events(2)); err != nil {
		t.Error(err)
	}
}

func TestBadSettingsSayWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := watermill.New(watermill.Config{Encoder: publisher.Encoder{Format: "xml"}})
	for _, want := range []string{"Publisher is missing", "Topic is missing", `"xml"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
