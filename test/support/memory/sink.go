// Package memory is a sink for tests that keeps its events. It can refuse, fail and delay.
package memory

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Sink keeps the events that it gets. Its zero value is ready to use and accepts everything. It is
// safe for concurrent use.
type Sink struct {
	// Label is the sink's name; default "memory".
	Label string
	// OnPublish, if set, is called with each batch before any event is accepted. Its error becomes
	// the error of the batch. It may block.
	OnPublish func(ctx context.Context, events []publisher.Event) error
	// Refuse, if set, is called for each event in order. An error refuses the event, for good if
	// permanent.
	Refuse func(e publisher.Event) (err error, permanent bool)
	// Down, if set, returns the error of every batch and of Healthy.
	Down func() error

	mu       sync.Mutex
	closed   bool
	received []Received
	batches  int
}

// Received is an event as it arrived.
type Received struct {
	Topic      string
	ID         uuid.UUID
	CampaignID string
	Seq        int64
	Position   int64
	Payload    []byte
}

// Name returns the Label.
func (s *Sink) Name() string {
	if s.Label == "" {
		return "memory"
	}
	return s.Label
}

// Publish keeps the events.
func (s *Sink) Publish(ctx context.Context, events []publisher.Event) error {
	if s.OnPublish != nil {
		if err := s.OnPublish(ctx, events); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.Healthy(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return publisher.ErrClosed
	}
	s.batches++
	var failures []publisher.Failure
	var failed []string // campaigns
	for i, e := range events {
		if slices.Contains(failed, e.CampaignID) {
			failures = append(failures, publisher.Failure{Index: i, Err: publisher.ErrNotTried})
			continue
		}
		if s.Refuse != nil {
			if err, permanent := s.Refuse(e); err != nil {
				failures = append(failures, publisher.Failure{Index: i, Err: err, Permanent: permanent})
				failed = append(failed, e.CampaignID)
				continue
			}
		}
		s.received = append(s.received, Received{e.Topic, e.ID, e.CampaignID, e.Seq, e.Position, slices.Clone(e.Payload)})
	}
	if failures != nil {
		return &publisher.BatchError{Failures: failures}
	}
	return nil
}

// Healthy returns the error of Down.
func (s *Sink) Healthy(context.Context) error {
	if s.Down != nil {
		return s.Down()
	}
	return nil
}

// Received returns all accepted events in order.
func (s *Sink) Received() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

// Batches returns the number of batches accepted in whole or in part.
func (s *Sink) Batches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batches
}

// Close makes later batches fail.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// ErrDown is an error to return from Down.
var ErrDown = errors.New("the other side is down")
