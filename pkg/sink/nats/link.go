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
)

// link is one connection. It is not repaired: what it has not confirmed is lost with it.
type link struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	maxSize int           // that the stream takes; 0: any
	broken  chan struct{} // closed when it is

	mu  sync.Mutex
	why error
}

// connect makes a connection, and finds out what the stream takes.
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
	// Who may not ask is not told: then what the stream does not take is learnt from its refusal.
	if stream, err := s.stream(ctx, l); err == nil && stream.CachedInfo().Config.MaxMsgSize > 0 {
		l.maxSize = int(stream.CachedInfo().Config.MaxMsgSize)
	}
	return l, nil
}

// stream asks for the stream that stores the subjects.
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

// fail ends the use of the link, for the first reason that is given.
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

// refuses tells whether an event is refused for its own sake, and will be again.
func refuses(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum) ||
		errors.Is(err, errTooLarge)
}

// standing tells whether nothing gets through until an operator changes the server.
func standing(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, nats.ErrAuthorization) ||
		errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked)
}

var errTooLarge = errors.New("too large for the stream")
