package redis_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	client "github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/tidemark-go/tidemark/internal/redistest"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
)

// server is a Redis behind a proxy that can be taken away.
type server struct {
	*client.Client // past the proxy
	t              *testing.T
	proxy          *toxiproxy.Proxy
}

func start(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, Client: client.NewClient(&client.Options{Addr: redistest.Start(t, args...)})}
	t.Cleanup(func() { _ = s.Close() })
	metrics := toxiproxy.NewMetricsContainer(prometheus.NewRegistry())
	s.proxy = toxiproxy.NewProxy(toxiproxy.NewServer(metrics, zerolog.Nop()), "redis", "127.0.0.1:0", s.Options().Addr)
	s.up()
	t.Cleanup(s.proxy.Stop)
	return s
}

func (s *server) up() {
	s.t.Helper()
	if err := s.proxy.Start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) stop() (start func()) {
	s.proxy.Stop()
	return s.up
}

// stall lets nothing that the server says come through.
func (s *server) stall() (resume func()) {
	s.t.Helper()
	text, err := json.Marshal(map[string]any{"name": "stall", "type": "timeout", "stream": "downstream", "attributes": map[string]int{"timeout": 0}})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.proxy.Toxics.AddToxicJson(strings.NewReader(string(text))); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if err := s.proxy.Toxics.RemoveToxic(s.t.Context(), "stall"); err != nil {
			s.t.Error(err)
		}
	}
}

// address is that of the proxy.
func (s *server) address() string { return s.proxy.Listen }

// do runs a command.
func (s *server) do(words ...any) any {
	s.t.Helper()
	answer, err := s.Do(s.t.Context(), words...).Result()
	if err != nil {
		s.t.Fatalf("%v: %v", words, err)
	}
	return answer
}

// entries answers the ids of a stream's entries, and of the events in them.
func (s *server) entries(stream string) (ids, events []string) {
	s.t.Helper()
	entries, err := s.XRange(s.t.Context(), stream, "-", "+").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		ids, events = append(ids, e.ID), append(events, e.Values["event_id"].(string))
	}
	return ids, events
}

// received answers what streams with some prefix hold.
func (s *server) received(prefix string) func(context.Context) ([]publishertest.Received, error) {
	return func(ctx context.Context) (received []publishertest.Received, err error) {
		names, err := s.Keys(ctx, prefix+"*").Result()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			entries, err := s.XRange(ctx, name, "-", "+").Result()
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				body, _ := e.Values["body"].(string)
				campaign, _ := e.Values["campaign_id"].(string)
				received = append(received, publishertest.Received{EventID: uuid.MustParse(e.Values["event_id"].(string)), CampaignID: campaign, Body: []byte(body)})
			}
		}
		return received, nil
	}
}
