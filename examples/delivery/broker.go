package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	streamName = "ORDERS"
	subject    = "orders"
	// duplicates is the window in which the broker drops duplicates by itself. It is short, so that
	// events that the worker sends again also arrive again.
	duplicates = 100 * time.Millisecond
	brokerWait = 30 * time.Second
)

// broker is an embedded NATS server with one stream.
type broker struct {
	server *server.Server
	dir    string
}

func startBroker(ctx context.Context) (b *broker, err error) {
	b = &broker{}
	if b.dir, err = os.MkdirTemp("", "tidemark-delivery-*"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	b.server, err = server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: b.dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, err
	}
	go b.server.Start()
	if !b.server.ReadyForConnections(brokerWait) {
		return nil, fmt.Errorf("the broker is not ready after %s", brokerWait)
	}
	conn, err := nats.Connect(b.address())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{subject},
		Duplicates: duplicates,
	})
	return b, err
}

func (b *broker) address() string { return b.server.ClientURL() }

func (b *broker) close() error {
	if b.server != nil {
		b.server.Shutdown()
		b.server.WaitForShutdown()
	}
	return os.RemoveAll(b.dir)
}
