package watermill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a [Sink].
type Config struct {
	Name      string            // default "watermill"
	Publisher message.Publisher // required; the sink closes it
	Topic     string            // of all events; required unless TopicOf is set
	// TopicOf returns the topic of an event. It must not keep the event.
	TopicOf func(*publisher.Event) string
	// Refused reports whether an error of Publisher means that it refuses this one message, and
	// whether for good. Without it every error is an outage: no event loses an attempt, and one that
	// is never accepted holds up all later ones.
	Refused func(error) (refused, permanent bool)
	Encoder publisher.Encoder
}

// Sink hands events to a Watermill publisher.
type Sink struct {
	cfg  Config
	gate delivery.Gate
	runs sync.WaitGroup

	abandonedMu sync.Mutex
	abandoned   map[string]chan struct{} // by campaign: closed once the message that a Publish left behind is done
}

// New checks the configuration.
func New(cfg Config) (*Sink, error) {
	cfg.Name = cmp.Or(cfg.Name, "watermill")
	errs := []error{cfg.Encoder.Check()}
	if cfg.Publisher == nil {
		errs = append(errs, errors.New("Publisher is missing: name the publisher to hand events to"))
	}
	if cfg.Topic == "" && cfg.TopicOf == nil {
		errs = append(errs, errors.New("Topic is missing: name it, or set TopicOf"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Sink{cfg: cfg, abandoned: map[string]chan struct{}{}}, nil
}

// Name returns the configured name.
func (s *Sink) Name() string { return s.cfg.Name }

// Publish hands the events over.
func (s *Sink) Publish(ctx context.Context, events []publisher.Event) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	if err := s.await(ctx, events); err != nil {
		return err
	}
	r := s.encode(ctx, events)
	done := make(chan struct{})
	s.runs.Go(func() {
		defer close(done)
		r.run(ctx)
	})
	select {
	case <-done:
		return r.err
	case <-ctx.Done():
		s.abandon(events, done)
		return ctx.Err()
	}
}

// Close closes the publisher and waits for current messages.
func (s *Sink) Close() error {
	if !s.gate.Close() {
		return nil
	}
	err := s.cfg.Publisher.Close() // this also ends messages that wait in it
	s.runs.Wait()
	return err
}

// await waits for messages of the same campaigns that earlier calls left behind.
func (s *Sink) await(ctx context.Context, events []publisher.Event) error {
	for i := range events {
		s.abandonedMu.Lock()
		done := s.abandoned[events[i].CampaignID]
		s.abandonedMu.Unlock()
		if done == nil {
			continue
		}
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("an earlier event is still being handed over: %w", ctx.Err())
		}
		s.abandonedMu.Lock()
		if s.abandoned[events[i].CampaignID] == done {
			delete(s.abandoned, events[i].CampaignID)
		}
		s.abandonedMu.Unlock()
	}
	return ctx.Err()
}

func (s *Sink) abandon(events []publisher.Event, done chan struct{}) {
	s.abandonedMu.Lock()
	defer s.abandonedMu.Unlock()
	for i := range events {
		s.abandoned[events[i].CampaignID] = done
	}
}
