package webhook

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/freeport"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/pkg/webhook"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const poison = `{"poison": true}`

// other is a webhook endpoint that verifies signatures. It can be stalled and stopped.
type other struct {
	t       *testing.T
	address string
	secret  webhook.Secret
	server  *http.Server
	served  chan struct{}

	mu       sync.Mutex
	stalled  chan struct{} // nil: it responds
	received []publishertest.Received
	headers  []http.Header
}

func newOther(t *testing.T) *other {
	t.Helper()
	port, err := freeport.TCP(t.Context()) // a fixed port, so the endpoint can come back on it
	if err != nil {
		t.Fatal(err)
	}
	o := &other{t: t, address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), secret: webhook.NewSecret()}
	o.start()
	t.Cleanup(o.stop)
	return o
}

func (o *other) start() {
	listener, err := net.Listen("tcp", o.address)
	if err != nil {
		o.t.Error(err)
		return
	}
	o.server = &http.Server{Handler: o, ReadHeaderTimeout: time.Minute}
	o.served = make(chan struct{})
	go func(server *http.Server, served chan struct{}) {
		defer close(served)
		_ = server.Serve(listener)
	}(o.server, o.served)
}

func (o *other) stop() {
	_ = o.server.Close()
	<-o.served
}

func (o *other) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	o.mu.Lock()
	stalled := o.stalled
	o.mu.Unlock()
	if stalled != nil {
		select {
		case <-stalled:
		case <-r.Context().Done():
		}
		return
	}
	delivery, err := webhook.Verify(r.Header, body, 0, o.secret)
	if err != nil {
		o.t.Errorf("a request came that does not verify: %v", err)
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	if strings.Contains(string(body), `"poison"`) {
		http.Error(w, "not this one", http.StatusUnprocessableEntity)
		return
	}
	campaign, id, err := event.ParseIdentity(delivery.ID)
	if err != nil {
		o.t.Error(err)
	}
	header, err := url.PathUnescape(r.Header.Get("Tidemark-Campaign-Id") + r.Header.Get("ce-subject"))
	structured := strings.HasPrefix(r.Header.Get("Content-Type"), "application/cloudevents+json")
	if err != nil || header != campaign && !structured {
		o.t.Errorf("webhook-id is of campaign %q, the header names %q, %v", campaign, header, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.received = append(o.received, publishertest.Received{EventID: id, CampaignID: campaign, Body: body})
	o.headers = append(o.headers, r.Header)
}

// loopback returns the networks that tests may dial.
func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

func open(t *testing.T, cfg Config) *sink {
	t.Helper()
	if len(cfg.Secrets) == 0 {
		cfg.Unsigned = true
	}
	opened, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*sink)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestWebhookKeepsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	for _, format := range []publisher.Format{
		publisher.FormatEnvelope, publisher.FormatCloudEvents, publisher.FormatRaw,
	} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			encoder := publisher.Encoder{Format: format}
			publishertest.Run(t, encoder, func(t *testing.T) publishertest.Target {
				o := newOther(t)
				return publishertest.Target{
					Sink: open(t, Config{
						URL: "http://" + o.address, Secrets: []webhook.Secret{o.secret}, AllowNetworks: loopback(),
						Encoder: encoder,
					}),
					Received: func(context.Context) ([]publishertest.Received, error) {
						o.mu.Lock()
						defer o.mu.Unlock()
						return append([]publishertest.Received(nil), o.received...), nil
					},
					Poison: func(e *publisher.Event) { e.Payload = []byte(poison) },
					Stall: func() func() {
						o.mu.Lock()
						defer o.mu.Unlock()
						stalled := make(chan struct{})
						o.stalled = stalled
						return func() {
							o.mu.Lock()
							defer o.mu.Unlock()
							o.stalled = nil
							close(stalled)
						}
					},
					Stop: func() func() {
						o.stop()
						return o.start
					},
				}
			})
		})
	}
}

// of returns an event of a campaign.
func of(campaign string, seq int64) publisher.Event {
	return publisher.Event{Topic: "t", Event: event.Event{
		ID: uuid.Must(uuid.NewV7()), Type: "noted",
		CampaignID: campaign, Seq: seq, Position: seq, Payload: []byte(`{}`),
	}}
}
