package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/pkg/sink/rabbitmq"
)

func events(campaign string, n int) (events []publisher.Event) {
	for i := range n {
		events = append(events, publisher.Event{Topic: "orders", Event: journal.Event{
			ID: uuid.New(), Type: "noted", CampaignID: campaign, AggregateType: "order", AggregateID: "7", Seq: int64(i + 1),
			Payload: []byte(`{}`),
		}})
	}
	return events
}

func TestRabbitMQKeepsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	for _, format := range []publisher.Format{publisher.FormatEnvelope, publisher.FormatCloudEvents} {
		t.Run(string(format), func(t *testing.T) {
			encoder := publisher.Encoder{Format: format, AttributePrefix: "cloudEvents_"}
			publishertest.Run(t, encoder, func(t *testing.T) publishertest.Target {
				q := newQueue(t, nil)
				return publishertest.Target{
					Sink:     q.open(rabbitmq.Config{Encoder: encoder}),
					Received: q.read,
					Poison:   func(e *publisher.Event) { e.Payload = []byte(`"` + strings.Repeat("x", maxMessageBytes) + `"`) },
					Stall:    q.stall,
					Stop:     q.stop,
				}
			})
		})
	}
}

// failures answers what a batch error says: of each failure the index, and "for good", "refused" or "not tried".
func failures(t *testing.T, err error) (indexes []int, words []string) {
	t.Helper()
	var batch *publisher.BatchError
	if !errors.As(err, &batch) {
		t.Fatalf("got %v, want a batch error", err)
	}
	for _, f := range batch.Failures {
		indexes = append(indexes, f.Index)
		switch {
		case f.Permanent:
			words = append(words, "for good")
		case errors.Is(f.Err, publisher.ErrNotTried):
			words = append(words, "not tried")
		default:
			words = append(words, "refused")
		}
	}
	return indexes, words
}

func TestAMessageSaysWhatItIs(t *testing.T) {
	t.Parallel()
	q := newQueue(t, nil)
	s := q.open(rabbitmq.Config{RoutingKey: "{topic}.{aggregate_type}.{aggregate_id}.{campaign_id}.{event_type}"})
	e := events("c", 1)
	if err := s.Publish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if _, err := q.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := q.last
	if d.RoutingKey != "orders.order.7.c.noted" || d.ContentType != "application/json" ||
		d.DeliveryMode != amqp.Persistent || d.Type != "noted" || d.MessageId != e[0].Identity() ||
		d.Headers["seq"] != "1" {
		t.Errorf("got %+v", d)
	}
}

func TestAnEventThatNoQueueIsBoundForIsRefused(t *testing.T) {
	t.Parallel()
	q := newQueue(t, nil)
	if err := q.ch.QueueUnbind(q.name, "#", q.name, nil); err != nil {
		t.Fatal(err)
	}
	if err := q.ch.QueueBind(q.name, "noted", q.name, false, nil); err != nil {
		t.Fatal(err)
	}
	batch := slices.Concat(events("a", 3), events("b", 2))
	batch[1].Type = "unheard"
	err := q.open(rabbitmq.Config{}).Publish(t.Context(), batch)
	if indexes, words := failures(t, err); !slices.Equal(indexes, []int{1, 2}) ||
		!slices.Equal(words, []string{"refused", "not tried"}) ||
		!strings.Contains(err.Error(), `NO_ROUTE: bind a queue to exchange "`+q.name+`" for key "unheard"`) {
		t.Errorf("events %d are %q: %v", indexes, words, err)
	}
	if err := q.open(rabbitmq.Config{AllowUnroutable: true}).Publish(t.Context(), batch[1:3]); err != nil {
		t.Errorf("where that is allowed: %v", err)
	}
	received, err := q.read(t.Context())
	if err != nil || len(received) != 4 {
		t.Errorf("%d events have arrived, %v", len(received), err)
	}
}

func TestAQueueThatIsFullIsNobodysFault(t *testing.T) {
	t.Parallel()
	q := newQueue(t, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	s := q.open(rabbitmq.Config{})
	err := s.Publish(t.Context(), events("a", 4))
	indexes, words := failures(t, err)
	if len(indexes) == 0 || indexes[len(indexes)-1] != 3 ||
		slices.ContainsFunc(words, func(word string) bool { return word != "not tried" }) ||
		!strings.Contains(err.Error(), "basic.nack") {
		t.Errorf("events %d are %q: %v", indexes, words, err)
	}
}

// TestWhatIsNackedInTheMiddleKeepsItsPlace has a queue with room for one message, and a consumer that
// empties it all the while: of what is sent together some is nacked, and what comes after it would be
// taken. What failed is sent again, as the relay does.
func TestWhatIsNackedInTheMiddleKeepsItsPlace(t *testing.T) {
	t.Parallel()
	q := newQueue(t, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	s := q.open(rabbitmq.Config{})
	rest := slices.Concat(events("a", 15), events("b", 15))
	all := slices.Clone(rest)
	nacked := 0
	for deadline := time.Now().Add(3 * time.Minute); len(rest) > 0; {
		done := make(chan error, 1)
		go func() { done <- s.Publish(t.Context(), rest) }()
		var err error
		for waiting := true; waiting; {
			select {
			case err = <-done:
				waiting = false
			default:
			}
			if _, err := q.read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err == nil {
			break
		}
		var batch *publisher.BatchError
		if !errors.As(err, &batch) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		nacked++
		var again []publisher.Event
		for _, f := range batch.Failures {
			again = append(again, rest[f.Index])
		}
		rest = again
	}
	received, err := q.read(t.Context())
	if err != nil || len(received) != len(all) || nacked == 0 {
		t.Errorf("%d of %d events have arrived, after %d refusals: %v", len(received), len(all), nacked, err)
	}
	next := map[string]int{}
	for _, r := range received {
		of := slices.DeleteFunc(slices.Clone(all), func(e publisher.Event) bool { return e.CampaignID != r.CampaignID })
		if i := next[r.CampaignID]; i >= len(of) || of[i].ID != r.EventID {
			t.Errorf("of campaign %s another event has arrived than its number %d", r.CampaignID, i+1)
		}
		next[r.CampaignID]++
	}
}

func TestAKeyThatTheProtocolCannotCarryIsRefusedForGood(t *testing.T) {
	t.Parallel()
	q := newQueue(t, nil)
	s := q.open(rabbitmq.Config{RoutingKey: "x.{campaign_id}", MaxMessageBytes: 2000})
	batch := slices.Concat(events(strings.Repeat("c", 254), 2), events("b", 2), events("d", 1))
	batch[2].Payload = []byte(`"` + strings.Repeat("x", 2000) + `"`)
	if indexes, words := failures(t, s.Publish(t.Context(), batch)); !slices.Equal(indexes, []int{0, 1, 2, 3}) ||
		!slices.Equal(words, []string{"for good", "not tried", "for good", "not tried"}) {
		t.Errorf("events %d are %q", indexes, words)
	}
}

func TestAMissingExchangeIsAnErrorOfTheSink(t *testing.T) {
	t.Parallel()
	q := newQueue(t, nil)
	s := q.open(rabbitmq.Config{Exchange: "missing " + q.name})
	err := s.Publish(t.Context(), events("a", 1))
	var batch *publisher.BatchError
	if err == nil || errors.As(err, &batch) || !strings.Contains(err.Error(),
		"declare it, or let the sink do so with exchange_type") {
		t.Errorf("got %v", err)
	}
	if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", publisher.Outage(errors.New("down"))) {
		t.Errorf("%v is not marked as no event's fault", err)
	}
	if s.Healthy(t.Context()) == nil {
		t.Error("it says that it is healthy")
	}
	err = q.open(rabbitmq.Config{ExchangeType: "fanout"}).Publish(t.Context(), events("a", 1))
	if err == nil || errors.As(err, &batch) || !strings.Contains(err.Error(), "leave exchange_type out") {
		t.Errorf("an exchange of another type: got %v", err)
	}
	declared := q.open(rabbitmq.Config{Exchange: "declared " + q.name, ExchangeType: "fanout", AllowUnroutable: true})
	if err := declared.Publish(t.Context(), events("a", 1)); err != nil {
		t.Error(err)
	}
	if err := q.ch.ExchangeDelete("declared "+q.name, false, false); err != nil {
		t.Error(err)
	}
}

// Not parallel: the broker blocks all of its connections.
func TestABlockedConnectionIsLeftAlone(t *testing.T) { //nolint:paralleltest // see above
	b, q := running(t), newQueue(t, nil)
	s := q.open(rabbitmq.Config{})
	if err := s.Publish(t.Context(), events("before", 1)); err != nil {
		t.Fatal(err)
	}
	b.ctl(t, "set_vm_memory_high_watermark", "absolute", "1")
	unblock := func() { b.ctl(t, "set_vm_memory_high_watermark", "0.6") }
	t.Cleanup(unblock)
	// The broker notices at its next look at the memory, and says so to a connection that publishes.
	batch := events("a", 2)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(3 * time.Minute)
	for ; ; <-tick.C {
		err := publishWithin(t, s, 5*time.Second, batch)
		if err != nil && strings.Contains(err.Error(), "connection blocked") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the broker has no memory, and Publish says %v", err)
		}
	}
	started := time.Now()
	if err := publishWithin(t, s, 5*time.Minute, batch); err == nil ||
		!strings.Contains(err.Error(), "connection blocked") || time.Since(started) > 2*time.Minute {
		t.Errorf("after %s: %v", time.Since(started), err)
	}
	if err := s.Healthy(t.Context()); err == nil || !strings.Contains(err.Error(), "connection blocked") {
		t.Errorf("its health is %v", err)
	}
	unblock()
	deadline = time.Now().Add(3 * time.Minute)
	for ; publishWithin(t, s, 5*time.Second, batch) != nil; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the broker has memory again, and Publish still fails")
		}
	}
	if err := s.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
}

func publishWithin(t *testing.T, s *rabbitmq.Sink, d time.Duration, batch []publisher.Event) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return s.Publish(ctx, batch)
}

func openURL(t *testing.T, address string) (publisher.Sink, error) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return rabbitmq.Kind().Open(publisher.Settings{Publisher: "bus", URL: u, Decode: func(any) error { return nil }})
}

func TestAURLIsEnough(t *testing.T) {
	t.Parallel()
	q := newQueue(t, nil)
	s, err := openURL(t, strings.Replace(q.url, "amqp:", "rabbitmq:", 1)+"?heartbeat=5&exchange="+url.QueryEscape(q.name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.(*rabbitmq.Sink).Close() })
	if err := s.Publish(t.Context(), events("a", 1)); err != nil || s.Name() != "bus" {
		t.Errorf("%s: %v", s.Name(), err)
	}
}

func TestBadSettingsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"amqp://h/?exchnage=x":                           `the URL has a parameter "exchnage": it may have exchange`,
		"amqp://h/?exchange=x&exchange_type=any":         `exchange_type is "any": it must be topic, direct, fanout or headers`,
		"amqp://h/?exchange_type=topic":                  `exchange is missing: name the exchange to declare`,
		"amqp://h/?routing_key=a.%7Bcampaign%7D":         `routing_key is "a.{campaign}": it may hold {topic}`,
		"amqp://h/?max_message_bytes=-1":                 "max_message_bytes is -1: it must be at least 1",
		"amqp://u:secret@h/?heartbeat=often":             "write amqp://user:password@host:5672/vhost",
		"amqps://h/?ca=no-such-file.pem":                 "no-such-file.pem",
		"amqp://h/?exchange=" + strings.Repeat("x", 256): "exchange has 256 bytes: it may have up to 255",
	} {
		if _, err := openURL(t, address); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", address, err)
		}
	}
	if _, err := rabbitmq.New(rabbitmq.Config{}); err == nil || !strings.Contains(err.Error(), "url is missing") {
		t.Errorf("got %v", err)
	}
}
