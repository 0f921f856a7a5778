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
	Topic     string            // where all events go; required unless TopicOf is set
	// TopicOf answers where an event goes. It must not keep the event.
	TopicOf func(*publisher.Event) string
	// Refused tells whether an error of Publisher means that it refuses this one message, and whether
	// for good. Without it every error is an outage: no event loses an attempt, and one that is never
	// taken holds up all that come after it.
	Refused func(error) (refused, permanent bool)
	Encoder publisher.Encoder
}

// Sink hands events to a publisher of Watermill.
type Sink struct {
	cfg  Config
	gate delivery.Gate
	runs sync.WaitGroup

	abandonedMu sync.Mutex
	abandoned   map[string]chan struct{} // by campaign: closed once what a Publish has left behind is done
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

// Name is the configured name.
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

// Close waits for what is being handed over, and closes the publisher.
func (s *Sink) Close() error {
	if !s.gate.Close() {
		return nil
	}
	err := s.cfg.Publisher.Close() // which also ends what waits in it
	s.runs.Wait()
	return err
}

// await waits for what earlier calls have left behind of the same campaigns.
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
