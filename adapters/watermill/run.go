package watermill

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// run publishes a batch. It shares no memory with the events.
type run struct {
	cfg      *Config
	messages []outgoing
	outcome  *delivery.Outcome
	err      error // set once it is done
}

type outgoing struct {
	topic string
	*message.Message
}

func (s *Sink) encode(ctx context.Context, events []publisher.Event) *run {
	r := &run{cfg: &s.cfg, messages: make([]outgoing, len(events)), outcome: delivery.Of(events)}
	for i := range events {
		encoded := s.cfg.Encoder.Encode(&events[i])
		m := message.NewMessageWithContext(ctx, events[i].IdentityUUID().String(), encoded.Body)
		m.Metadata.Set("campaign_id", encoded.Key)
		m.Metadata.Set("event_id", events[i].ID.String())
		m.Metadata.Set("content_type", encoded.ContentType)
		for _, a := range encoded.Attributes {
			m.Metadata.Set(a.Name, a.Value)
		}
		topic := s.cfg.Topic
		if s.cfg.TopicOf != nil {
			topic = s.cfg.TopicOf(&events[i])
		}
		r.messages[i] = outgoing{topic, m}
	}
	return r
}

// run publishes the messages, and stops when ctx ends.
func (r *run) run(ctx context.Context) {
	for i, m := range r.messages {
		if r.outcome.Behind(i) {
			continue
		}
		err := ctx.Err()
		if err == nil {
			err = r.cfg.Publisher.Publish(m.topic, m.Message)
		}
		if err == nil {
			continue
		}
		if r.cfg.Refused != nil && ctx.Err() == nil {
			if refused, permanent := r.cfg.Refused(err); refused {
				r.outcome.Fail(i, err, permanent)
				continue
			}
		}
		if i == 0 {
			r.err = err
			return
		}
		// Earlier messages are published and need not be sent again.
		r.outcome.Fail(i, fmt.Errorf("%w: %w", publisher.ErrNotTried, err), false)
		for rest := i + 1; rest < len(r.messages); rest++ {
			r.outcome.Fail(rest, publisher.ErrNotTried, false)
		}
		break
	}
	r.err = r.outcome.Err()
}
