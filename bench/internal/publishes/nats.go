package publishes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	natssink "github.com/tidemark-go/tidemark/pkg/sink/nats"
)

const natsSubject = "events"

// natsBroker is an embedded server with JetStream, whose stream is stored in files.
type natsBroker struct {
	*server.Server
	dir string
}

func startNATS(ctx context.Context) (broker, error) {
	dir, err := os.MkdirTemp("", "tidemark-bench-nats-")
	if err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start NATS: %w", err), os.RemoveAll(dir))
	}
	b := &natsBroker{Server: s, dir: dir}
	go s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		b.stop()
		return nil, errors.New("start NATS: it does not get ready")
	}
	err = b.connected(func(js jetstream.JetStream) error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: natsSubject, Subjects: []string{natsSubject}})
		return err
	})
	if err != nil {
		b.stop()
		return nil, fmt.Errorf("create the stream: %w", err)
	}
	return b, nil
}

// connected calls do on a new connection.
func (b *natsBroker) connected(do func(jetstream.JetStream) error) error {
	conn, err := nats.Connect(b.ClientURL())
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	return do(js)
}

func (b *natsBroker) stop() {
	b.Shutdown()
	b.WaitForShutdown()
	_ = os.RemoveAll(b.dir)
}

func (b *natsBroker) sink() (publisher.Sink, error) {
	return natssink.New(natssink.Config{Servers: []string{b.Addr().String()}, Subject: natsSubject})
}

func (b *natsBroker) client(context.Context) (client, error) {
	conn, err := nats.Connect(b.ClientURL())
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(1<<20))
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &natsClient{conn: conn, js: js}, nil
}

type natsClient struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	messages []publisher.Message
	ids      []string
}

func (c *natsClient) prepare(events []publisher.Event) {
	var encoder publisher.Encoder
	for i := range events {
		c.messages, c.ids = append(c.messages, encoder.Encode(&events[i])), append(c.ids, events[i].ID.String())
	}
}

func (c *natsClient) message(i int) *nats.Msg {
	encoded := &c.messages[i]
	m := &nats.Msg{Subject: natsSubject, Header: make(nats.Header, len(encoded.Attributes)+2), Data: encoded.Body}
	m.Header["Content-Type"], m.Header[jetstream.MsgIDHeader] = []string{encoded.ContentType}, []string{c.ids[i]}
	for _, a := range encoded.Attributes {
		m.Header[a.Name] = []string{a.Value}
	}
	return m
}

func (c *natsClient) publish(ctx context.Context, from, to int) error {
	futures := make([]jetstream.PubAckFuture, 0, to-from)
	for i := from; i < to; i++ {
		future, err := c.js.PublishMsgAsync(c.message(i), jetstream.WithRetryAttempts(0))
		if err != nil {
			return fmt.Errorf("publish to NATS: %w", err)
		}
		futures = append(futures, future)
	}
	for _, future := range futures {
		select {
		case <-future.Ok():
		case err := <-future.Err():
			return fmt.Errorf("publish to NATS: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (c *natsClient) close() { c.conn.Close() }
