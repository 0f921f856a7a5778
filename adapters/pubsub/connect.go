package pubsub

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

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
