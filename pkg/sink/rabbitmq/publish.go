package rabbitmq

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// round is a batch on its way.
type round struct {
	*sink
	*delivery.Outcome
	events []publisher.Event
	lanes  [][]int // of each campaign, the events that are to come
	attrs  []publisher.Attribute
}

// message is an event that is on its way.
type message struct {
	index      int // in the batch
	key        string
	publishing amqp.Publishing
	confirm    *amqp.DeferredConfirmation
	returned   *amqp.Return
}

func (s *sink) publish(ctx context.Context, events []publisher.Event) error {
	r := &round{sink: s, Outcome: delivery.Of(events), events: events}
	r.lanes = r.ByCampaign()
	for {
		wave := r.next()
		if len(wave) == 0 {
			return r.Err()
		}
		if err := r.send(ctx, wave); err != nil {
			return err
		}
	}
}

// next takes the next event of each campaign.
func (r *round) next() (wave []*message) {
	for n := range r.lanes {
		if len(r.lanes[n]) == 0 || len(wave) == maxWave || r.Behind(r.lanes[n][0]) {
			continue
		}
		i := r.lanes[n][0]
		r.lanes[n] = r.lanes[n][1:]
		if m, err := r.message(i); err == nil {
			wave = append(wave, m)
		} else {
			r.Fail(i, err, true)
		}
	}
	return wave
}

func (r *round) message(i int) (*message, error) {
	e := &r.events[i]
	m := &message{index: i, key: keyOf(r.cfg.RoutingKey, e)}
	if len(m.key) > maxShort {
		return nil, fmt.Errorf("its routing key %.40q… has %d bytes: the protocol takes up to %d; choose another "+
			"routing_key", m.key, len(m.key), maxShort)
	}
	body := r.cfg.Encoder.AppendBody(nil, e)
	if len(body) > r.cfg.MaxMessageBytes {
		return nil, fmt.Errorf("it has %d bytes, and max_message_bytes is %d", len(body), r.cfg.MaxMessageBytes)
	}
	r.attrs = r.cfg.Encoder.AppendAttributes(r.attrs[:0], e)
	headers := make(amqp.Table, len(r.attrs))
	for _, a := range r.attrs {
		headers[a.Name] = a.Value
	}
	m.publishing = amqp.Publishing{
		Headers: headers, ContentType: r.cfg.Encoder.ContentType(), DeliveryMode: amqp.Persistent, MessageId: messageID(e),
		Timestamp: e.OccurredAt, Body: body,
	}
	if len(e.Type) <= maxShort {
		m.publishing.Type = e.Type
	}
	if r.cfg.Transient {
		m.publishing.DeliveryMode = amqp.Transient
	}
	return m, nil
}

// messageID is the event's identity, as a UUID where that is too long for the protocol.
func messageID(e *publisher.Event) string {
	if id := e.Identity(); len(id) <= maxShort {
		return id
	}
	return e.IdentityUUID().String()
}

// send sends a wave. A message that the broker finds too large costs the channel, and does not say
// which it was: all are sent again, one by one.
func (r *round) send(ctx context.Context, wave []*message) error {
	c, err := r.session(ctx, false)
	if err != nil {
		return err
	}
	err = r.attempt(ctx, c, wave)
	switch {
	case err == nil:
		return nil
	case !tooLarge(err):
		return r.explain(err)
	case len(wave) == 1:
		r.Fail(wave[0].index, err, true)
		return nil
	}
	for _, m := range wave {
		if err := r.send(ctx, []*message{m}); err != nil {
			return err
		}
	}
	return nil
}

// attempt publishes messages in a channel, waits for the broker's answer to all of them, and takes it
// down. Without an error all have been answered.
func (r *round) attempt(ctx context.Context, c *session, wave []*message) error {
	done := false
	defer func() {
		if done {
			r.giveBack(c)
		} else {
			r.discard(c)
		}
	}()
	err := c.link.within(ctx, func() (err error) {
		for _, m := range wave {
			m.returned = nil
			if m.confirm, err = c.PublishWithDeferredConfirm(r.cfg.Exchange, m.key, !r.cfg.AllowUnroutable, false,
				m.publishing); err != nil {
				return c.why(err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.await(ctx, wave); err != nil {
		return err
	}
	done = true
	for _, m := range wave {
		r.settle(m)
	}
	return nil
}

// settle takes down what the broker has said of a message.
func (r *round) settle(m *message) {
	switch {
	case m.returned != nil:
		r.Fail(m.index, fmt.Errorf("RabbitMQ has returned it: %d %s: bind a queue to exchange %q for key %q, or set "+
			"allow_unroutable",
			m.returned.ReplyCode, m.returned.ReplyText, r.cfg.Exchange, m.key), false)
	case !m.confirm.Acked():
		r.Fail(m.index, fmt.Errorf("%w: RabbitMQ does not acknowledge it (basic.nack), as when a queue is full",
			publisher.ErrNotTried), false)
	}
}

// await waits until all messages are confirmed, one way or the other, and finds those that have come back.
func (c *session) await(ctx context.Context, wave []*message) error {
	for _, m := range wave {
		block, _ := c.link.blocked()
		select {
		case <-m.confirm.Done():
		case <-block:
			select {
			case <-m.confirm.Done():
			default:
				_, err := c.link.blocked()
				if err == nil {
					err = fmt.Errorf("RabbitMQ has blocked the connection")
				}
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for RabbitMQ's confirmation: %w", ctx.Err())
		}
	}
	for {
		select {
		case back, ok := <-c.returns:
			if !ok {
				return c.why(amqp.ErrClosed)
			}
			for _, m := range wave {
				if m.publishing.MessageId == back.MessageId {
					m.returned = &back
				}
			}
			continue
		default:
		}
		break
	}
	for _, m := range wave {
		if !m.confirm.Acked() && c.IsClosed() { // a channel that is closed answers all that is open with a nack
			return c.why(amqp.ErrClosed)
		}
	}
	return nil
}

// why answers the broker's reason for a channel that is closed, or else err.
func (c *session) why(err error) error {
	if c.reason == nil && c.IsClosed() {
		c.reason = err
		if reason := <-c.closed; reason != nil {
			c.reason = reason
		}
	}
	if c.reason != nil {
		return c.reason
	}
	return err
}
