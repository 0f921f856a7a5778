package redis_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	client "github.com/redis/go-redis/v9"

	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/test/support/proxy"
	"github.com/tidemark-go/tidemark/test/support/redistest"
)

// server is a Redis behind a proxy that can be taken away.
type server struct {
	*client.Client // past the proxy
	t              *testing.T
	proxy          *proxy.Proxy
}

func start(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, Client: client.NewClient(&client.Options{Addr: redistest.Start(t, args...)})}
	t.Cleanup(func() { _ = s.Close() })
	s.proxy = proxy.Start(t, s.Options().Addr)
	return s
}

func (s *server) stop() (start func()) {
	s.proxy.Stop()
	return func() { s.proxy.Open(s.t) }
}

// stall lets nothing that the server says come through.
func (s *server) stall() (resume func()) {
	s.t.Helper()
	s.proxy.Toxic(s.t, "timeout", "downstream", map[string]int{"timeout": 0})
	return func() { s.proxy.Heal(s.t) }
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
				received = append(received, publishertest.Received{
					EventID:    uuid.MustParse(e.Values["event_id"].(string)),
					CampaignID: campaign, Body: []byte(body),
				})
			}
		}
		return received, nil
	}
}
