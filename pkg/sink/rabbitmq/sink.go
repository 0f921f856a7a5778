package rabbitmq

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// sink publishes events to an exchange.
type sink struct {
	cfg        Config
	connecting chan struct{} // who has put something into it may use link
	link       *link
	background sync.WaitGroup
	gate       delivery.Gate
}

// New checks the configuration. It connects to nothing.
func New(cfg Config) (publisher.Sink, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	return &sink{cfg: cfg, connecting: make(chan struct{}, 1)}, nil
}

// Name is the configured name.
func (s *sink) Name() string { return s.cfg.Name }

// Publish publishes the events and waits until the broker has confirmed them.
func (s *sink) Publish(ctx context.Context, events []publisher.Event) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	return s.publish(ctx, events)
}

// Healthy tells whether the broker takes events: it is there, has the exchange, and does not block the connection.
func (s *sink) Healthy(ctx context.Context) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	c, err := s.session(ctx, true)
	if err != nil {
		return err
	}
	s.giveBack(c)
	return nil
}

// closeTimeout is how long the broker may take to say goodbye.
const closeTimeout = 2 * time.Second

// Close waits for what is being published, and closes the connection.
func (s *sink) Close() error {
	if !s.gate.Close() {
		return nil
	}
	if s.link != nil {
		_ = s.link.CloseDeadline(time.Now().Add(closeTimeout)) // all is confirmed: what a goodbye comes to does not matter
		_ = s.link.raw.Close()
	}
	s.background.Wait()
	return nil
}
