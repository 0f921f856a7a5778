package nats_test

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidemark-go/tidemark/internal/freeport"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
)

// broker is a NATS server of one test. It can be stopped and started again.
type broker struct {
	*server.Server
	options server.Options
}

func start(t *testing.T, change func(*server.Options)) *broker {
	t.Helper()
	port, err := freeport.TCP(t.Context()) // a fixed port, so the server can come back on it
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{options: server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir(),
		NoLog: true, NoSigs: true,
	}}
	if change != nil {
		change(&b.options)
	}
	b.up(t)
	t.Cleanup(b.stopped)
	return b
}

func (b *broker) up(t *testing.T) {
	t.Helper()
	options := b.options
	s, err := server.NewServer(&options)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(2 * time.Minute) {
		t.Fatal("the server does not get ready")
	}
	b.Server = s
}

func (b *broker) stopped() {
	b.Shutdown()
	b.WaitForShutdown()
}

func (b *broker) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.options.Port)) }

// stream creates a stream for a subject and returns a function that reads it.
func stream(
	t *testing.T, address string, config jetstream.StreamConfig, options ...nats.Option,
) func(context.Context) ([]publishertest.Received, error) {
	t.Helper()
	conn, err := nats.Connect(address, append(options, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateStream(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		_ = js.DeleteStream(ctx, config.Name)
	})
	var mu sync.Mutex
	var next uint64 = 1
	var received []publishertest.Received
	return func(ctx context.Context) ([]publishertest.Received, error) {
		mu.Lock()
		defer mu.Unlock()
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		info, err := s.Info(ctx)
		if err != nil {
			return received, nil // the stream is away for the moment
		}
		for ; next <= info.State.LastSeq; next++ {
			m, err := s.GetMsg(ctx, next)
			if err != nil {
				return received, nil
			}
			id := m.Header.Get("event_id") + m.Header.Get("ce-id")
			campaign, err := url.PathUnescape(m.Header.Get("campaign_id") + m.Header.Get("ce-subject"))
			if err != nil {
				return nil, err
			}
			received = append(received, publishertest.Received{
				EventID: uuid.MustParse(id[:36]), CampaignID: campaign,
				Body: m.Data,
			})
		}
		return received, nil
	}
}

// unique returns a name that no other test uses, even on a shared server.
func unique() string { return "tidemark-test-" + strings.ReplaceAll(uuid.NewString(), "-", "") }
