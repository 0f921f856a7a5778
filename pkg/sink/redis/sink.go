package redis

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// sink adds events to streams.
type sink struct {
	cfg    Config
	client redis.UniversalClient // opens connections when it needs them
	add    *redis.Script

	gate       delivery.Gate
	background sync.WaitGroup // goroutines that no caller waits for any more
}

// New checks the configuration. It connects to nothing.
func New(cfg Config) (publisher.Sink, error) {
	options, err := cfg.options()
	if err != nil {
		return nil, err
	}
	return &sink{cfg: cfg, client: redis.NewUniversalClient(options), add: add()}, nil
}

// Name is the configured name.
func (s *sink) Name() string { return s.cfg.Name }

// Publish adds the events, and returns when Redis has them.
func (s *sink) Publish(ctx context.Context, events []publisher.Event) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	return s.publish(ctx, events)
}

// Healthy tells whether Redis answers.
func (s *sink) Healthy(ctx context.Context) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	return s.within(ctx, func() error { return s.client.Ping(ctx).Err() })
}

// Close waits for calls of Publish and Healthy, and closes the connections.
func (s *sink) Close() error {
	if !s.gate.Close() {
		return nil
	}
	err := s.client.Close()
	s.background.Wait()
	return err
}

// within runs what waits for Redis. The client heeds a context's deadline, and not that it is
// cancelled: then ask goes on alone, until Redis answers or the client is closed.
func (s *sink) within(ctx context.Context, ask func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	s.background.Go(func() { done <- ask() })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for Redis: %w", ctx.Err())
	}
}
