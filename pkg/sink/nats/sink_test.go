package nats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/pkg/sink/nats"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
	"github.com/tidemark-go/tidemark/test/support/settingtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func open(t *testing.T, cfg nats.Config) *nats.Sink {
	t.Helper()
	opened, err := nats.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*nats.Sink)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newEvent(campaign string, seq int64) publisher.Event {
	return publisher.Event{Topic: "t", Event: event.Event{
		ID: uuid.New(), Type: "noted", CampaignID: campaign, Seq: seq,
		Payload: []byte(`{}`),
	}}
}

func large(size int) func(*publisher.Event) {
	return func(e *publisher.Event) { e.Payload = fmt.Appendf(nil, `{"n": %q}`, bytes.Repeat([]byte("x"), size)) }
}

func TestNATSKeepsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg     nats.Config
		poison  int
		maxSize int32
	}{
		"what the server does not take is refused": {nats.Config{Subject: "events"}, 2 << 20, -1},
		"what the stream does not take is refused": {nats.Config{
			Subject: "events.{topic}.{type}.{campaign}",
			Encoder: publisher.Encoder{Format: publisher.FormatCloudEvents},
		}, 9000, 8192},
		"strictly": {nats.Config{Subject: "events", Strict: true}, 2 << 20, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			publishertest.Run(t, test.cfg.Encoder, func(t *testing.T) publishertest.Target {
				b := start(t, nil)
				cfg := test.cfg
				cfg.Servers = []string{b.address()}
				received := stream(t, b.address(), jetstream.StreamConfig{
					Name: "all", Subjects: []string{"events", "events.>"},
					MaxMsgSize: test.maxSize,
				})
				return publishertest.Target{
					Sink: open(t, cfg), Received: received, Poison: large(test.poison),
					Stop: func() func() {
						b.stopped()
						return func() { b.up(t) }
					},
				}
			})
		})
	}
}

func TestNATSKeepsTheRulesOfSinksOnTheServerThatIsThere(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:4222"
	conn, err := client.Connect(address, client.Timeout(time.Second))
	if err != nil {
		t.Logf("no server on %s: what is embedded is the test (%v)", address, err)
		return
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AccountInfo(t.Context()); err != nil {
		t.Logf("the server on %s has no JetStream: what is embedded is the test (%v)", address, err)
		return
	}
	publishertest.Run(t, publisher.Encoder{}, func(t *testing.T) publishertest.Target {
		name := unique()
		received := stream(t, address, jetstream.StreamConfig{
			Name: name, Subjects: []string{name},
			Storage: jetstream.MemoryStorage,
		})
		return publishertest.Target{
			Sink:     open(t, nats.Config{Servers: []string{address}, Subject: name}),
			Received: received, Poison: large(2 << 20),
		}
	})
}

func TestARepeatIsNotStoredAgain(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	received := stream(t, b.address(), jetstream.StreamConfig{Name: "all", Subjects: []string{"events"}})
	s := open(t, nats.Config{Servers: []string{b.address()}, Subject: "events"})
	events := []publisher.Event{newEvent("a", 1), newEvent("a", 2)}
	for range 3 {
		if err := s.Publish(t.Context(), events); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := received(t.Context()); err != nil || len(got) != 2 || got[0].EventID != events[0].ID {
		t.Errorf("%d events are stored, %v", len(got), err)
	}
}

func TestNothingIsSentBehindAnEventThatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	received := stream(t, b.address(), jetstream.StreamConfig{Name: "all", Subjects: []string{"events"}, MaxMsgSize: 4096})
	s := open(t, nats.Config{Servers: []string{b.address()}, Subject: "events"})
	events := []publisher.Event{newEvent("a", 1), newEvent("b", 1), newEvent("a", 2), newEvent("b", 2), newEvent("a", 3)}
	large(8000)(&events[2])
	var refused *publisher.BatchError
	if err := s.Publish(t.Context(), events); !errors.As(err, &refused) || len(refused.Failures) != 2 {
		t.Fatalf("got %v", err)
	}
	got, err := received(t.Context())
	if err != nil || len(got) != 3 || got[0].EventID != events[0].ID || got[1].EventID != events[1].ID ||
		got[2].EventID != events[3].ID {
		t.Errorf("%+v are stored, %v", got, err)
	}
}

// The server accepts connections and never answers.
func TestAServerThatIsSilentEndsPublishWithItsContext(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	s := open(t, nats.Config{Servers: []string{listener.Addr().String()}, Subject: "events"})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	started := time.Now()
	if err := s.Publish(ctx, []publisher.Event{newEvent("a", 1)}); err == nil || time.Since(started) > 30*time.Second {
		t.Errorf("after %s: %v", time.Since(started), err)
	}
}

func TestAnOutageBlamesNoEvent(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "root", Password: "pw"},
			{Username: "reader", Password: "pw", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{"$JS.API.>"}},
			}},
		}
	})
	_ = stream(t, b.address(), jetstream.StreamConfig{Name: "all", Subjects: []string{"events"}},
		client.UserInfo("root", "pw"))
	_ = stream(t, b.address(), jetstream.StreamConfig{
		Name: "full", Subjects: []string{"full"}, MaxMsgs: 1,
		Discard: jetstream.DiscardNew,
	}, client.UserInfo("root", "pw"))
	plain := start(t, func(o *server.Options) { o.JetStream = false })
	for name, test := range map[string]struct {
		cfg       nats.Config
		want      string
		unhealthy bool
	}{
		"a stream that does not exist": {
			nats.Config{Subject: "nowhere", User: "root", Password: "pw"},
			"no response from stream: JetStream must be on, with a stream that stores the subject", true,
		},
		"a right that is missing": {
			nats.Config{Subject: "events", User: "reader", Password: "pw"},
			"ermissions violation", false,
		},
		"a password that is wrong": {
			nats.Config{Subject: "events", User: "root", Password: "guess"},
			"uthorization",
			true,
		},
		"a stream that is full": {
			nats.Config{Subject: "full", User: "root", Password: "pw"},
			"maximum messages exceeded", false,
		},
		"a server without JetStream": {
			nats.Config{Subject: "events", Servers: []string{plain.address()}},
			"no response from stream", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.cfg.Servers == nil {
				test.cfg.Servers = []string{b.address()}
			}
			s := open(t, test.cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			err := s.Publish(ctx, []publisher.Event{newEvent("a", 1), newEvent("a", 2)})
			var refused *publisher.BatchError
			if err == nil || !strings.Contains(err.Error(), test.want) || errors.As(err, &refused) || ctx.Err() != nil {
				t.Errorf("publish: got %v", err)
			}
			if name == "a right that is missing" && reflect.TypeOf(err) != reflect.TypeOf(publisher.Outage(err)) {
				t.Errorf("publish: %v is not taken as an outage", err)
			}
			if err := s.Healthy(ctx); test.unhealthy && err == nil {
				t.Error("it says that it is healthy")
			}
		})
	}
}

func settings(t *testing.T, address string) publisher.Settings {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return publisher.Settings{Publisher: "p", URL: u, Logger: slog.New(slog.DiscardHandler), Decode: func(any) error {
		return nil
	}}
}

func TestAURLIsEnough(t *testing.T) {
	t.Parallel()
	tls, files := settingtest.Certificate(t)
	b := start(t, func(o *server.Options) { o.TLS, o.TLSConfig, o.Username, o.Password = true, tls, "anna", "p@ss" })
	received := stream(t, b.address(), jetstream.StreamConfig{Name: "all", Subjects: []string{"events.>"}},
		client.RootCAs(files.Cert), client.UserInfo("anna", "p@ss"))
	sink, err := nats.Kind().Open(settings(t, "natss://anna:p%40ss@"+
		b.address()+",127.0.0.1:1/events.{campaign}?ca="+url.QueryEscape(files.Cert)))
	if err != nil {
		t.Fatal(err)
	}
	s := sink.(*nats.Sink)
	defer func() { _ = s.Close() }()
	if err := s.Publish(t.Context(), []publisher.Event{newEvent("a b.c", 1)}); err != nil || s.Name() != "p" {
		t.Errorf("%s: %v", s.Name(), err)
	}
	if got, err := received(t.Context()); len(got) != 1 || err != nil {
		t.Errorf("%d events are stored, %v", len(got), err)
	}
	if err := s.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSettingsThatAreWrongAreNamedWithTheRemedy(t *testing.T) {
	t.Parallel()
	for address, wants := range map[string][]string{
		"nats:":                     {"servers are missing: name at least one as host:port", "subject is missing"},
		"nats://h:0/a..b":           {`servers holds "h:0": write host:port`, `subject is "a..b"`},
		"nats://h/a.{seq}":          {`subject is "a.{seq}": it is words with dots`},
		"nats://u:p@h/a?token=t":    {"user, token and creds exclude each other"},
		"nats://h/a?user=u":         {`user is "u" and user or password is missing`},
		"nats://h/a?creds=/no/such": {"creds: stat /no/such", "name a file"},
		"nats://h/a?key=/no/such":   {"a client's certificate needs both"},
		"nats://h/a?subjects=b&strict=yes": {
			`the URL has a parameter "subjects": it may have servers, subject`,
			`strict is "yes" in the URL: it must be true or false`,
		},
	} {
		_, err := nats.Kind().Open(settings(t, address))
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is missing in\n%v", address, want, err)
			}
		}
	}
}

func TestNATSHeadersAreTheEventsOwn(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	conn, err := client.Connect(b.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "all", Subjects: []string{"events"}})
	if err != nil {
		t.Fatal(err)
	}
	full, bare := newEvent("a", 1), newEvent("b", 1)
	full.AggregateType, full.Payload = "seat", []byte(`{"long": "longer than the next"}`)
	full.Metadata = []byte(`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`)
	events := []publisher.Event{full, bare}
	if err := open(t, nats.Config{Servers: []string{b.address()}, Subject: "events"}).Publish(t.Context(),
		events); err != nil {
		t.Fatal(err)
	}
	for i := range events {
		m, err := s.GetMsg(t.Context(), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		want := publisher.Encoder{}.Encode(&events[i])
		if !bytes.Equal(m.Data, want.Body) || len(m.Header) != len(want.Attributes)+2 ||
			m.Header.Get(jetstream.MsgIDHeader) != events[i].Identity() {
			t.Errorf("event %d came as %s with %v", i, m.Data, m.Header)
		}
		for _, a := range want.Attributes {
			if m.Header.Get(a.Name) != a.Value {
				t.Errorf("event %d has %s %q, want %q", i, a.Name, m.Header.Get(a.Name), a.Value)
			}
		}
	}
}

// TestWhoeverLeavesAtOnceLeavesNothingBehind closes sinks before the goroutines of their client can
// have begun. The leak check at the end of the package's tests looks for survivors.
func TestWhoeverLeavesAtOnceLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	stream(t, b.address(), jetstream.StreamConfig{Name: "all", Subjects: []string{"events"}})
	for range 100 {
		s := open(t, nats.Config{Servers: []string{b.address()}, Subject: "events"})
		if err := s.Healthy(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if err := s.Publish(ctx, []publisher.Event{newEvent("a", 1)}); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
