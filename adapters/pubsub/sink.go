package pubsub

import (
	"context"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// batchDelay is how long the client gathers a campaign's events. It gets all of them at once.
const batchDelay = time.Millisecond

// Sink publishes events to a topic.
type Sink struct {
	cfg Config

	connecting sync.Mutex
	connected  *pubsub.Client
	topic      *pubsub.Publisher

	gate delivery.Gate

	leftMu sync.Mutex
	left   map[string]*pubsub.PublishResult // by campaign: the last message that a Publish has left to the client
}

// New checks the configuration. It does not connect.
func New(cfg Config) (*Sink, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	return &Sink{cfg: cfg, left: map[string]*pubsub.PublishResult{}}, nil
}

// Name returns the configured name.
func (s *Sink) Name() string { return s.cfg.Name }

// Publish sends the events and waits until Pub/Sub has them.
func (s *Sink) Publish(ctx context.Context, events []publisher.Event) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	_, topic, err := s.client(ctx)
	if err != nil {
		return err
	}
	return s.publish(ctx, topic, events)
}

// Healthy asks for the topic. PermissionDenied counts as healthy: publishing needs no right to read it.
func (s *Sink) Healthy(ctx context.Context) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	client, topic, err := s.client(ctx)
	if err != nil {
		return err
	}
	_, err = client.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: topic.String()})
	if status.Code(err) == codes.PermissionDenied {
		return nil
	}
	return explain(err, topic.String())
}

// Close waits until the client has sent everything, or failed after send_timeout, and closes it.
func (s *Sink) Close() error {
	if !s.gate.Close() || s.connected == nil {
		return nil
	}
	s.topic.Stop()
	return s.connected.Close()
}

func explain(err error, topic string) error {
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.NotFound:
		return publisher.Outage(fmt.Errorf("%w: create the topic %s", err, topic))
	case codes.PermissionDenied, codes.Unauthenticated:
		return publisher.Outage(fmt.Errorf("%w: give the role Pub/Sub Publisher on %s to the credentials' account", err,
			topic))
	}
	return err
}

// reconnecting waits 100 ms before the second attempt to connect, and at most 5 s. gRPC's default
// starts at 1 s and may wait two minutes, long after the other side is back.
func reconnecting() grpc.ConnectParams {
	return grpc.ConnectParams{Backoff: backoff.Config{
		BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
		MaxDelay: 5 * time.Second,
	}, MinConnectTimeout: 20 * time.Second}
}

// client returns the client and its publisher. The first call makes them, which looks for credentials.
func (s *Sink) client(ctx context.Context) (*pubsub.Client, *pubsub.Publisher, error) {
	s.connecting.Lock()
	defer s.connecting.Unlock()
	if s.connected != nil {
		return s.connected, s.topic, nil
	}
	options := []option.ClientOption{option.WithGRPCDialOption(grpc.WithConnectParams(reconnecting()))}
	switch {
	case s.cfg.Emulator != "":
		options = append(options, option.WithEndpoint(s.cfg.Emulator), option.WithoutAuthentication(),
			option.WithTelemetryDisabled(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	case s.cfg.Endpoint != "":
		options = append(options, option.WithEndpoint(s.cfg.Endpoint))
	}
	client, err := pubsub.NewClient(context.WithoutCancel(ctx), s.cfg.Project, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("open Pub/Sub: %w", err)
	}
	topic := client.Publisher(s.cfg.Topic)
	topic.EnableMessageOrdering = true
	topic.PublishSettings.DelayThreshold = batchDelay
	topic.PublishSettings.Timeout = s.cfg.SendTimeout
	s.connected, s.topic = client, topic
	return client, topic, nil
}
