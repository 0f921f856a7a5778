package broker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kind is the sink kind "broker": broker://127.0.0.1:1234?from=one.
func Kind() publisher.Kind {
	return publisher.Kind{Name: "broker", Open: func(s publisher.Settings) (publisher.Sink, error) {
		if s.URL == nil {
			return nil, errors.New("a broker needs a URL such as broker://127.0.0.1:1234")
		}
		return &Sink{Addr: s.URL.Host, Publisher: s.Publisher, From: s.URL.Query().Get("from"), Encoder: s.Encoder}, nil
	}}
}

// Sink publishes to a [Server]. Set its fields before use.
type Sink struct {
	Addr      string
	Publisher string
	From      string // name of the sending process, for [Arrival]
	Encoder   publisher.Encoder

	mu     sync.Mutex
	closed bool
	idle   []*client
}

// client is an idle connection.
type client struct {
	conn net.Conn
	in   *json.Decoder
	out  *bufio.Writer
}

// Name returns the publisher's name.
func (s *Sink) Name() string { return s.Publisher }

// Publish writes the batch and waits for the answer.
func (s *Sink) Publish(ctx context.Context, events []publisher.Event) error {
	reply, err := s.ask(ctx, func(out *bufio.Writer) error {
		encoder := json.NewEncoder(out)
		for i := range events {
			e := &events[i]
			if err := encoder.Encode(line{Last: i == len(events)-1, Event: &Arrival{
				From: s.From, Publisher: s.Publisher, Topic: e.Topic, ID: e.ID, Type: e.Type, Campaign: e.CampaignID, Seq: e.Seq,
				Position: e.Position, Body: s.Encoder.Encode(e).Body,
			}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(reply.Refused) == 0 {
		return err
	}
	failed := &publisher.BatchError{}
	for _, r := range reply.Refused {
		err := errors.New(r.Reason)
		if r.NotTried {
			err = publisher.ErrNotTried
		}
		failed.Failures = append(failed.Failures, publisher.Failure{Index: r.Index, Err: err, Permanent: r.ForGood})
	}
	return failed
}

// Healthy asks whether the broker is up.
func (s *Sink) Healthy(ctx context.Context) error {
	_, err := s.ask(ctx, func(out *bufio.Writer) error { return json.NewEncoder(out).Encode(line{Last: true}) })
	return err
}

// Close closes idle connections. Connections in use are closed when they become idle.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, c := range s.idle {
		_ = c.conn.Close()
	}
	s.idle = nil
	return nil
}

// ask writes and reads an answer. After a failure the connection is closed, because a late answer
// could still arrive on it.
func (s *Sink) ask(ctx context.Context, write func(*bufio.Writer) error) (answer, error) {
	var reply answer
	c, err := s.client(ctx)
	if err != nil {
		return reply, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	if err = write(c.out); err == nil {
		if err = c.out.Flush(); err == nil {
			err = c.in.Decode(&reply)
		}
	}
	if !stop() || err != nil {
		_ = c.conn.Close()
		if err == nil {
			err = ctx.Err()
		}
		return reply, fmt.Errorf("broker %s: %w", s.Addr, errors.Join(err, ctx.Err()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.conn.Close()
	} else {
		s.idle = append(s.idle, c)
	}
	if reply.Down != "" {
		return reply, fmt.Errorf("broker %s: %s", s.Addr, reply.Down)
	}
	return reply, nil
}

// client returns an idle connection, or a new one.
func (s *Sink) client(ctx context.Context) (*client, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, publisher.ErrClosed
	}
	if n := len(s.idle); n > 0 {
		c := s.idle[n-1]
		s.idle = s.idle[:n-1]
		s.mu.Unlock()
		return c, nil
	}
	s.mu.Unlock()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, err
	}
	// A small buffer, so that a batch is sent in parts.
	return &client{conn: conn, in: json.NewDecoder(bufio.NewReader(conn)), out: bufio.NewWriterSize(conn, 1024)}, nil
}
