package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// link is one connection. It is never repaired: unconfirmed messages are lost with it.
type link struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	maxSize int           // of a message in the stream; 0: any
	broken  chan struct{} // closed when the connection is broken

	mu  sync.Mutex
	why error
}

// connect connects, and reads the stream's size limit and whether it confirms.
func (s *sink) connect(ctx context.Context) (*link, error) {
	l := &link{broken: make(chan struct{})}
	timeout := connectTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Millisecond, min(timeout, time.Until(deadline)))
	}
	conn, err := nats.Connect(strings.Join(s.cfg.Servers, ","),
		append(s.options[:len(s.options):len(s.options)], nats.Timeout(timeout),
			nats.ClosedHandler(func(c *nats.Conn) {
				l.fail(errors.Join(errors.New("the connection is closed"),
					c.LastError()))
			}),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { l.fail(err) }))...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(s.cfg.Servers, ", "), err)
	}
	l.conn = conn
	if l.js, err = jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(1<<20)); err != nil {
		conn.Close()
		return nil, err
	}
	// Without permission to ask, the limit is unknown: the stream itself then refuses larger events.
	if stream, err := s.stream(ctx, l); err == nil {
		config := stream.CachedInfo().Config
		if config.NoAck {
			conn.Close()
			return nil, publisher.Outage(fmt.Errorf("the stream %s has no_ack, so it confirms no event: set no_ack to false "+
				"there", config.Name))
		}
		l.maxSize = int(max(0, config.MaxMsgSize))
	}
	return l, nil
}

// stream returns the stream that stores the subjects.
func (s *sink) stream(ctx context.Context, l *link) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	name, err := l.js.StreamNameBySubject(ctx, s.subjects())
	if err != nil {
		return nil, fmt.Errorf("the stream of subject %s: %w", s.subjects(), err)
	}
	stream, err := l.js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	return stream, nil
}

// fail ends the use of the link. The first reason is kept.
func (l *link) fail(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why == nil {
		l.why = why
		close(l.broken)
	}
}

func (l *link) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// refuses reports whether an event itself is refused, and will be again.
func refuses(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum) ||
		errors.Is(err, errTooLarge)
}

// standing reports whether only an operator's change of the server can help.
func standing(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, nats.ErrAuthorization) ||
		errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked)
}

var errTooLarge = errors.New("too large for the stream")
