package lake

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Sink writes events to a table.
type Sink struct {
	cfg    Config
	folder folder
	gate   delivery.Gate

	turn  chan struct{} // holds a value while nothing works on the table
	table *table        // nil: not read yet
	swept bool          // files that a crash left behind are deleted
}

// New checks the configuration. It reads and writes nothing.
func New(cfg Config) (*Sink, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	s := &Sink{cfg: cfg, folder: folder(filepath.Clean(cfg.Path)), turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s, nil
}

// Name returns the configured name.
func (s *Sink) Name() string { return s.cfg.Name }

// Close waits for calls that have begun.
func (s *Sink) Close() error {
	s.gate.Close()
	return nil
}

// Healthy reads what is new in the table's log.
func (s *Sink) Healthy(ctx context.Context) error {
	return s.alone(ctx, func() error { return s.refresh(ctx) })
}

// Publish writes the events that the table does not have. Everything but a type with a name that is
// too long is an outage.
func (s *Sink) Publish(ctx context.Context, events []publisher.Event) error {
	outcome := delivery.Of(events)
	err := s.alone(ctx, func() error { return s.publish(ctx, events, outcome) })
	if err != nil {
		return err
	}
	return outcome.Err()
}

// alone calls do while no other goroutine works on the table.
func (s *Sink) alone(ctx context.Context, do func() error) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	select {
	case <-s.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	if err := do(); err != nil {
		return publisher.Outage(fmt.Errorf("lake %s: %w", s.cfg.Path, err))
	}
	return nil
}

// attempts bounds how often a batch is written again because other processes were quicker.
const attempts = 10

func (s *Sink) publish(ctx context.Context, events []publisher.Event, outcome *delivery.Outcome) error {
	for range attempts {
		if err := s.refresh(ctx); err != nil {
			return err
		}
		present, err := s.present(ctx, events)
		if err != nil {
			return err
		}
		*outcome = *outcome.Again()
		fresh := batch(events, present, outcome)
		if len(fresh) == 0 {
			return nil
		}
		added, err := s.writeAll(ctx, fresh)
		if err != nil {
			s.discard(added)
			return err
		}
		if err = s.commit(ctx, "WRITE", true, added, nil); err == nil {
			s.housekeep(ctx, slices.Sorted(maps.Keys(fresh)))
			return nil
		}
		if err := s.overtaken(ctx, added, err); err != nil {
			return err
		}
	}
	return fmt.Errorf("other processes have made the next entry of the log %d times in a row: "+
		"let fewer publishers write to the folder", attempts)
}
