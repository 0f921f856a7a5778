package rabbitmq

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// link is a connection to the broker, with channels that are free at the moment.
type link struct {
	*amqp.Connection
	raw  net.Conn // closing it ends whatever waits for the broker
	idle chan *session

	mu     sync.Mutex
	reason string        // why the broker blocks the connection
	block  chan struct{} // closed while it does
}

// session is a channel in confirm mode. One Publish uses it at a time.
type session struct {
	*amqp.Channel
	link    *link
	returns chan amqp.Return
	closed  chan *amqp.Error
	reason  error // why the broker has closed it
}

const (
	maxIdle = 16
	// events on their way at once in a channel; the library waits while there is no room for what it returns
	maxWave     = 256
	dialTimeout = 30 * time.Second
)

// blocked tells whether the broker blocks the connection, and answers what is closed as soon as it does.
func (l *link) blocked() (<-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.block:
		return l.block, fmt.Errorf("RabbitMQ takes no events: connection blocked: %s", l.reason)
	default:
		return l.block, nil
	}
}

func (l *link) watch(blockings <-chan amqp.Blocking) {
	for b := range blockings {
		l.mu.Lock()
		select {
		case <-l.block:
			if !b.Active {
				l.block = make(chan struct{})
			}
		default:
			if b.Active {
				l.reason = b.Reason
				close(l.block)
			}
		}
		l.mu.Unlock()
	}
}

// within runs what waits for the broker, which knows nothing of contexts. If ctx ends first the
// connection does too: the broker does not answer.
func (l *link) within(ctx context.Context, run func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = l.raw.Close() })
	err := run()
	if !stop() && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// connection answers the connection, and connects if there is none.
func (s *sink) connection(ctx context.Context) (*link, error) {
	select {
	case s.connecting <- struct{}{}:
		defer func() { <-s.connecting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.link != nil && !s.link.IsClosed() {
		return s.link, nil
	}
	l, err := s.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to RabbitMQ: %w", err)
	}
	s.link = l
	return l, nil
}

func (s *sink) dial(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	l := &link{idle: make(chan *session, maxIdle), block: make(chan struct{})}
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName("tidemark " + s.cfg.Name)
	stop := func() bool { return true }
	conn, err := amqp.DialConfig(s.cfg.URL, amqp.Config{
		Properties: properties, TLSClientConfig: s.cfg.TLS.Clone(),
		Dial: func(network, address string) (net.Conn, error) {
			raw, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			l.raw = raw
			stop = context.AfterFunc(ctx, func() { _ = raw.Close() })
			return raw, nil
		},
	})
	if !stop() && err == nil {
		err = ctx.Err()
		_ = conn.CloseDeadline(time.Now())
	}
	if err != nil {
		if l.raw != nil {
			_ = l.raw.Close()
		}
		return nil, err
	}
	l.Connection = conn
	blockings := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	s.background.Go(func() { l.watch(blockings) })
	return l, nil
}

// session answers a channel, opening one if fresh or if none is idle.
func (s *sink) session(ctx context.Context, fresh bool) (*session, error) {
	l, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := l.blocked(); err != nil {
		return nil, err
	}
	for !fresh {
		select {
		case c := <-l.idle:
			if c.IsClosed() {
				continue
			}
			return c, nil
		default:
		}
		break
	}
	c := &session{link: l}
	err = l.within(ctx, func() (err error) {
		if c.Channel, err = l.Channel(); err != nil {
			return err
		}
		if err := s.prepare(c); err != nil {
			_ = c.Close()
			return err
		}
		return nil
	})
	if err != nil {
		return nil, s.explain(err)
	}
	return c, nil
}

func (s *sink) prepare(c *session) error {
	c.returns = c.NotifyReturn(make(chan amqp.Return, maxWave))
	c.closed = c.NotifyClose(make(chan *amqp.Error, 1))
	var err error
	switch {
	case s.cfg.ExchangeType != "":
		err = c.ExchangeDeclare(s.cfg.Exchange, s.cfg.ExchangeType, true, false, false, false, nil)
	case s.cfg.Exchange != "":
		// the type is not looked at
		err = c.ExchangeDeclarePassive(s.cfg.Exchange, amqp.ExchangeTopic, true, false, false, false, nil)
	}
	if err != nil {
		return err
	}
	return c.Confirm(false)
}

// giveBack keeps the channel for the next Publish.
func (s *sink) giveBack(c *session) {
	if !c.IsClosed() {
		select {
		case c.link.idle <- c:
			return
		default:
		}
	}
	s.discard(c)
}

// discard closes a channel on which something is still on its way. That takes until the broker answers
// or the connection ends.
func (s *sink) discard(c *session) {
	s.background.Go(func() { _ = c.Close() })
}
