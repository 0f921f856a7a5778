package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark-go/tidemark/internal/text"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

type sink struct {
	cfg     Config
	options []nats.Option
	door    chan struct{} // has a token while no goroutine connects

	gate delivery.Gate

	mu   sync.Mutex
	link *link // nil until needed and after it broke
}

// New checks the configuration. It connects with the first Publish or Healthy.
func New(cfg Config) (publisher.Sink, error) {
	options, err := cfg.options()
	if err != nil {
		return nil, err
	}
	s := &sink{cfg: cfg, options: options, door: make(chan struct{}, 1)}
	s.door <- struct{}{}
	return s, nil
}

func (s *sink) Name() string { return s.cfg.Name }

// Publish publishes the events and waits until the stream has stored them.
func (s *sink) Publish(ctx context.Context, events []publisher.Event) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	l, err := s.open(ctx)
	if err != nil {
		return err
	}
	outcome := delivery.Of(events)
	if err = s.send(ctx, l, events, outcome); err == nil {
		return outcome.Err()
	}
	s.drop(l) // with the messages it may still hold
	if err = fmt.Errorf("publish to %s: %w", s.cfg.Subject, err); errors.Is(err, jetstream.ErrNoStreamResponse) {
		err = fmt.Errorf("%w: JetStream must be on, with a stream that stores the subject", err)
	}
	if standing(err) {
		return publisher.Outage(err)
	}
	return err
}

// send sends the events at once or, if strict, in waves with one event of each campaign.
func (s *sink) send(ctx context.Context, l *link, events []publisher.Event, outcome *delivery.Outcome) error {
	m := &message{Msg: nats.Msg{Header: nats.Header{}}}
	rest := make([]int, len(events))
	for i := range rest {
		rest[i] = i
	}
	for len(rest) > 0 {
		var later []int
		in := map[string]bool{}
		futures := make([]jetstream.PubAckFuture, 0, len(rest))
		sent := make([]int, 0, len(rest))
		for _, i := range rest {
			campaign := events[i].CampaignID
			switch {
			case outcome.Behind(i):
				continue
			case s.cfg.Strict && in[campaign]:
				later = append(later, i)
				continue
			}
			future, err := s.start(l, m, &events[i])
			switch {
			case refuses(err):
				outcome.Fail(i, err, true)
				continue
			case err != nil:
				return err
			}
			in[campaign] = true
			futures, sent = append(futures, future), append(sent, i)
		}
		for k, future := range futures {
			if err := l.await(ctx, future); refuses(err) {
				outcome.Fail(sent[k], err, true) // later events that got through are sent again, in order
			} else if err != nil {
				return err
			}
		}
		rest = later
	}
	return nil
}

// message is reused for each message of a batch.
type message struct {
	nats.Msg
	attrs  []publisher.Attribute
	values []string // of headers, each header a slice of one
}

func (m *message) set(name, value string) {
	m.values = append(m.values, value)
	n := len(m.values)
	m.Header[name] = m.values[n-1 : n : n]
}

// start sends an event without waiting. The client has written m to its buffer when this returns,
// and does not read it again, because it must not retry.
func (s *sink) start(l *link, m *message, e *publisher.Event) (jetstream.PubAckFuture, error) {
	if err := l.err(); err != nil {
		return nil, err
	}
	m.attrs = s.cfg.Encoder.AppendAttributes(m.attrs[:0], e)
	clear(m.Header)
	m.values = m.values[:0]
	m.set("Content-Type", s.cfg.Encoder.ContentType())
	m.set(jetstream.MsgIDHeader, e.Identity())
	cloud := s.cfg.Encoder.Format == publisher.FormatCloudEvents
	for _, a := range m.attrs { // a header loses spaces before and after it, and ends of lines
		if a.Name != "traceparent" && a.Name != "tracestate" { // ASCII, in their own format
			a.Value = text.EscapeHeader(a.Value)
		}
		m.set(a.Name, a.Value)
	}
	if cloud { // Content-Type says only whether a message is structured
		m.set("ce-datacontenttype", s.cfg.Encoder.ContentType())
	}
	m.Subject, m.Data = s.subject(e), s.cfg.Encoder.AppendBody(m.Data[:0], e)
	if size := sizeOf(&m.Msg); l.maxSize > 0 && size > l.maxSize {
		return nil, fmt.Errorf("%w: it has %d bytes, max_msg_size of the stream is %d; raise it there", errTooLarge, size,
			l.maxSize)
	}
	return l.js.PublishMsgAsync(&m.Msg, jetstream.WithRetryAttempts(0))
}

// sizeOf returns the message's size as the stream counts it.
func sizeOf(m *nats.Msg) int {
	size := len("NATS/1.0\r\n\r\n") + len(m.Data)
	for name, values := range m.Header {
		for _, value := range values {
			size += len(name) + len(": ") + len(value) + len("\r\n")
		}
	}
	return size
}

func (l *link) await(ctx context.Context, future jetstream.PubAckFuture) error {
	select {
	case <-future.Ok():
		return nil
	case err := <-future.Err():
		return err
	case <-l.broken:
		select { // it may have been confirmed before
		case <-future.Ok():
			return nil
		default:
		}
		return l.err()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), l.err())
	}
}

func (s *sink) Healthy(ctx context.Context) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	l, err := s.open(ctx)
	if err != nil {
		return err
	}
	if err := l.err(); err != nil {
		return err
	}
	if _, err = s.stream(ctx, l); errors.Is(err, context.DeadlineExceeded) {
		s.drop(l)
	}
	return err
}

// Close waits for current batches, which end with their contexts, and disconnects.
func (s *sink) Close() error {
	s.gate.Close()
	s.drop(s.link)
	return nil
}

// drop disconnects; the next call connects again. It does not call the client's CleanupPublisher,
// which leaks a goroutine that has just started. The part that waits for acknowledgements ends with
// the connection.
func (s *sink) drop(l *link) {
	if l == nil {
		return
	}
	s.mu.Lock()
	if s.link == l {
		s.link = nil
	}
	s.mu.Unlock()
	l.conn.Close()
	l.fail(nats.ErrConnectionClosed)
}

// open returns the connection, and connects if there is none.
func (s *sink) open(ctx context.Context) (*link, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.door:
	}
	defer func() { s.door <- struct{}{} }()
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l != nil && l.err() == nil {
		return l, nil
	}
	s.drop(l)
	l, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.link = l
	s.mu.Unlock()
	return l, nil
}
