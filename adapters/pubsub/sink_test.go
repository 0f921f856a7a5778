package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/google/uuid"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-go/tidemark/adapters/pubsub"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
)

func TestMain(m *testing.M) {
	// of the client's package, for the whole process
	leaktest.Main(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

const topicName = "projects/tests/topics/events"

// server is a Pub/Sub with a topic. It answers each request with what answer says, if that is set.
type server struct {
	*pstest.Server
	mu       sync.Mutex
	answer   error
	stalled  chan struct{}
	requests int
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = pstest.NewServer(pstest.ServerReactorOption{FuncName: "Publish", Reactor: s},
		pstest.ServerReactorOption{FuncName: "GetTopic", Reactor: s})
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.GServer.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topicName}); err != nil {
		t.Fatal(err)
	}
	return s
}

// React refuses events of type "poison", as the real one does those with attributes that are too long.
func (s *server) React(request any) (handled bool, response any, err error) {
	s.mu.Lock()
	answer, stalled := s.answer, s.stalled
	s.requests++
	s.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
	publish, ok := request.(*pubsubpb.PublishRequest)
	response = &pubsubpb.PublishResponse{}
	if !ok {
		response = &pubsubpb.Topic{}
	} else if slices.ContainsFunc(publish.Messages, func(m *pubsubpb.PubsubMessage) bool {
		return m.Attributes["event_type"] == "poison"
	}) {
		return true, response, status.Error(codes.InvalidArgument, "an attribute's value is too long")
	}
	return answer != nil, response, answer
}

func (s *server) stop() (start func()) {
	set := func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answer = err
	}
	set(status.Error(codes.Internal, "down"))
	return func() { set(nil) }
}

func (s *server) stall() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = make(chan struct{})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.stalled)
		s.stalled = nil
	}
}

func (s *server) read(context.Context) (received []publishertest.Received, err error) {
	for _, m := range s.Messages() {
		r := publishertest.Received{CampaignID: m.OrderingKey, Body: m.Data}
		id := m.Attributes["event_id"]
		if id == "" {
			id = m.Attributes["ce-id"]
		}
		r.EventID = uuid.MustParse(id[:36])
		received = append(received, r)
	}
	return received, nil
}

func open(t *testing.T, s *server, cfg pubsub.Config) *pubsub.Sink {
	t.Helper()
	cfg.Project, cfg.Topic, cfg.Emulator = "tests", "events", s.Addr
	sink, err := pubsub.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

func TestPubSubKeepsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	for _, format := range []publisher.Format{publisher.FormatEnvelope, publisher.FormatCloudEvents} {
		t.Run(string(format), func(t *testing.T) {
			encoder := publisher.Encoder{Format: format}
			publishertest.Run(t, encoder, func(t *testing.T) publishertest.Target {
				s := newServer(t)
				target := publishertest.Target{
					Sink: open(t, s, pubsub.Config{Encoder: encoder}), Received: s.read, Stall: s.stall,
					Stop: s.stop,
				}
				if format == publisher.FormatEnvelope {
					target.Poison = func(e *publisher.Event) { e.Type = "poison" }
				} else {
					target.Poison = func(e *publisher.Event) { e.Payload = []byte(`"` + strings.Repeat("x", 10_000_000) + `"`) }
				}
				return target
			})
		})
	}
}

func events(campaign string, n int) (events []publisher.Event) {
	for i := range n {
		events = append(events, publisher.Event{Event: event.Event{
			ID: uuid.New(), Type: "noted", CampaignID: campaign,
			Seq: int64(i + 1), Payload: []byte(`{}`),
		}})
	}
	return events
}

func TestACampaignGoesOnAfterAnOutage(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	sink := open(t, s, pubsub.Config{SendTimeout: time.Second})
	batch := slices.Concat(events("a", 3), events("b", 3))
	start := s.stop()
	var failed *publisher.BatchError
	if err := sink.Publish(t.Context(), batch); err == nil || errors.As(err, &failed) {
		t.Errorf("got %v", err)
	}
	if sink.Healthy(t.Context()) == nil {
		t.Error("it says that it is healthy")
	}
	start()
	for deadline := time.Now().Add(3 * time.Minute); ; {
		err := sink.Publish(t.Context(), batch)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	received, err := s.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	arrived := map[uuid.UUID]bool{}
	for _, r := range received {
		arrived[r.EventID] = true
	}
	if len(arrived) != 6 {
		t.Errorf("%d of 6 events have arrived", len(arrived))
	}
}

func TestWhatIsLeftBehindIsNotPiledUp(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	sink := open(t, s, pubsub.Config{})
	resume := s.stall()
	batch := events("a", 2)
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := sink.Publish(ctx, batch); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
	}
	resume()
	if err := sink.Publish(t.Context(), batch); err != nil {
		t.Error(err)
	}
	if received, _ := s.read(t.Context()); len(received) > 4 {
		t.Errorf("%d messages have arrived of 2 events that were sent again once", len(received))
	}
}

func TestWhatIsMissingIsAnErrorOfTheSink(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]string{
		codes.NotFound:         "create the topic " + topicName,
		codes.PermissionDenied: "give the role Pub/Sub Publisher",
	} {
		s := newServer(t)
		sink := open(t, s, pubsub.Config{})
		s.mu.Lock()
		s.answer = status.Error(code, "no")
		s.mu.Unlock()
		var failed *publisher.BatchError
		if err := sink.Publish(t.Context(), events("a", 1)); err == nil || errors.As(err, &failed) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", code, err)
		} else if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", publisher.Outage(errors.New("down"))) {
			t.Errorf("%s: %v is not marked as no event's fault", code, err)
		}
		if err := sink.Healthy(t.Context()); (err == nil) != (code == codes.PermissionDenied) {
			t.Errorf("%s: its health is %v", code, err)
		}
	}
}

func TestAURLIsEnough(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	_, port, _ := net.SplitHostPort(s.Addr)
	u, err := url.Parse(fmt.Sprintf("pubsub://tests/events?emulator=127.0.0.1:%s&send_timeout=5s", port))
	if err != nil {
		t.Fatal(err)
	}
	sink, err := pubsub.Kind().Open(publisher.Settings{Publisher: "cloud", URL: u, Decode: func(any) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.(*pubsub.Sink).Close() })
	if err := sink.Publish(t.Context(), events("a", 2)); err != nil || sink.Name() != "cloud" {
		t.Errorf("%s: %v", sink.Name(), err)
	}
}

func TestBadSettingsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"pubsub:///events": "project is missing: write pubsub://project/topic", "pubsub://p": "topic is missing",
		"pubsub://p/9lives":                                `topic is "9lives": an id begins with a letter`,
		"pubsub://p/events?send_timeout=5ms":               "send_timeout is 5ms: it must be at least 1s",
		"pubsub://p/events?endpoint=a:443&emulator=b:8085": `endpoint is "a:443" and emulator "b:8085": name one of them`,
		"pubsub://p/events?tpic=x":                         `the URL has a parameter "tpic": it may have project, topic`,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = pubsub.Kind().Open(publisher.Settings{URL: u, Decode: func(any) error { return nil }})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", address, err)
		}
	}
}
