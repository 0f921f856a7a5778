package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// callBytes is how much a call of the script may bring, about: Redis does nothing else meanwhile, and
// limits what it buffers.
const callBytes = 8 << 20

// batch is the events of one Publish on their way.
type batch struct {
	*sink
	*delivery.Outcome
	events []publisher.Event
	bodies [][]byte
	attrs  []publisher.Attribute
}

// call is one call of the script: the next events of one stream.
type call struct {
	stream string
	places []int // in the batch
	bytes  int
	args   []any

	cmd     *redis.Cmd
	reached *redis.Cmd // replicas, if any are waited for
}

func (s *sink) publish(ctx context.Context, events []publisher.Event) error {
	b := &batch{sink: s, Outcome: delivery.Of(events), events: events, bodies: make([][]byte, len(events))}
	rest := make([]int, 0, len(events))
	for i := range events {
		if b.Behind(i) {
			continue
		}
		b.bodies[i] = s.cfg.Encoder.AppendBody(nil, &events[i])
		if n := len(b.bodies[i]); n > s.cfg.MaxMessageBytes {
			b.Fail(i, fmt.Errorf("its body has %d bytes, and max_message_bytes is %d", n, s.cfg.MaxMessageBytes), true)
			continue
		}
		rest = append(rest, i)
	}
	for len(rest) > 0 {
		var calls []*call
		calls, rest = b.next(rest)
		if err := b.send(ctx, calls); err != nil {
			return err
		}
	}
	return b.Err()
}

// next takes what can be sent in one go: of each campaign the next events, as long as they go to one stream.
func (b *batch) next(rest []int) (calls []*call, later []int) {
	of := map[string]*call{}      // by stream
	towards := map[string]*call{} // by campaign; nil: what comes of it waits
	for _, i := range rest {
		e := &b.events[i]
		if b.Behind(i) {
			continue
		}
		stream := streamOf(b.cfg.Stream, e)
		before, known := towards[e.CampaignID]
		c := of[stream]
		if c == nil && !known {
			c = &call{stream: stream}
			of[stream] = c
			calls = append(calls, c)
		}
		if known && (before == nil || before != c) || c.bytes > 0 && c.bytes+len(b.bodies[i]) > callBytes {
			towards[e.CampaignID] = nil
			later = append(later, i)
			continue
		}
		towards[e.CampaignID] = c
		c.places, c.bytes = append(c.places, i), c.bytes+len(b.bodies[i])
	}
	return calls, later
}

// args are the script's parameters. They are text, since numbers would be bounded by what the client takes.
func (b *batch) args(c *call) []any {
	args := append(make([]any, 0, 3+24*len(c.places)), strconv.Itoa(b.cfg.MaxLength), strconv.Itoa(lateKept),
		strconv.Itoa(min(b.cfg.MinReplicas, 1)))
	for _, i := range c.places {
		e := &b.events[i]
		b.attrs = b.cfg.Encoder.AppendAttributes(b.attrs[:0], e)
		words := len(args) + 1
		args = append(args, strconv.FormatInt(max(0, e.Position), 10), nil, "event_id", e.ID.String(), "campaign_id",
			e.CampaignID)
		for _, a := range b.attrs {
			if a.Name != "event_id" && a.Name != "campaign_id" {
				args = append(args, a.Name, a.Value)
			}
		}
		args = append(args, "content_type", b.cfg.Encoder.ContentType(), "body", b.bodies[i])
		args[words] = strconv.Itoa(len(args) - words - 1)
	}
	return args
}
