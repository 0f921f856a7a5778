package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// callBytes is how much a call of the script may bring, about: Redis does nothing else meanwhile, and
// limits what it buffers.
const callBytes = 8 << 20

// batch is the events of one Publish on their way.
type batch struct {
	*sink
	events []publisher.Event
	errs   []error        // of events that were refused, or not tried
	failed map[string]int // by campaign, the first of them
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
	b := &batch{
		sink: s, events: events, errs: make([]error, len(events)), failed: map[string]int{},
		bodies: make([][]byte, len(events)),
	}
	rest := make([]int, 0, len(events))
	for i := range events {
		if b.behind(i) {
			continue
		}
		b.bodies[i] = s.cfg.Encoder.AppendBody(nil, &events[i])
		if n := len(b.bodies[i]); n > s.cfg.MaxMessageBytes {
			b.refuse(i, fmt.Errorf("its body has %d bytes, and max_message_bytes is %d", n, s.cfg.MaxMessageBytes))
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
	return b.err()
}

// next takes what can be sent in one go: of each campaign the next events, as long as they go to one stream.
func (b *batch) next(rest []int) (calls []*call, later []int) {
	of := map[string]*call{}      // by stream
	towards := map[string]*call{} // by campaign; nil: what comes of it waits
	for _, i := range rest {
		e := &b.events[i]
		if b.behind(i) {
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

// behind tells whether an event before event i in its campaign has failed, and takes down that it was not tried.
func (b *batch) behind(i int) bool {
	first, ok := b.failed[b.events[i].CampaignID]
	if !ok || i <= first {
		return false
	}
	b.errs[i] = publisher.ErrNotTried
	return true
}

func (b *batch) fail(i int, err error) {
	b.errs[i], b.failed[b.events[i].CampaignID] = err, i
}

// refuse is fail for good.
func (b *batch) refuse(i int, err error) { b.fail(i, &permanentError{err}) }

type permanentError struct{ error }

// err is what Publish answers of events that were refused.
func (b *batch) err() error {
	var failures []publisher.Failure
	for i, err := range b.errs {
		if err != nil {
			var permanent *permanentError
			failures = append(failures, publisher.Failure{Index: i, Err: err, Permanent: errors.As(err, &permanent)})
		}
	}
	if failures == nil {
		return nil
	}
	return &publisher.BatchError{Failures: failures}
}
