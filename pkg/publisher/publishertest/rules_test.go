package publishertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// bad is a sink that breaks a promise, together with the broker it sends to.
type bad struct {
	mu       sync.Mutex
	received []Received
	closed   bool
	down     bool
	stalled  chan struct{}
	over     <-chan struct{} // closed when the rule has been checked
	later    []func()        // run before the next look at what has arrived
	publish  func(ctx context.Context, s *bad, events []publisher.Event) error
}

func (s *bad) Name() string { return "bad" }

func (s *bad) Publish(ctx context.Context, events []publisher.Event) error {
	return s.publish(ctx, s, events)
}

func (s *bad) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *bad) arrive(e publisher.Event, id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = append(s.received, Received{
		EventID: id, CampaignID: e.CampaignID,
		Body: publisher.Encoder{}.AppendBody(nil, &e),
	})
}

// state returns whether the sink is closed or down, and the channel it waits for when stalled.
func (s *bad) state() (closed, down bool, stalled chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed, s.down, s.stalled
}

// good keeps all rules.
func good(ctx context.Context, s *bad, events []publisher.Event) error {
	closed, down, stalled := s.state()
	if stalled != nil {
		select {
		case <-stalled:
		case <-ctx.Done():
		}
	}
	switch {
	case closed:
		return publisher.ErrClosed
	case down:
		return errors.New("down")
	case ctx.Err() != nil:
		return ctx.Err()
	}
	var failures []publisher.Failure
	var failed []string
	for i, e := range events {
		switch {
		case slices.Contains(failed, e.CampaignID):
			failures = append(failures, publisher.Failure{Index: i, Err: publisher.ErrNotTried})
		case e.Type == "poison":
			failed = append(failed, e.CampaignID)
			failures = append(failures, publisher.Failure{Index: i, Err: errors.New("refused"), Permanent: true})
		default:
			s.arrive(e, e.ID)
		}
	}
	if failures != nil {
		return &publisher.BatchError{Failures: failures}
	}
	return nil
}

func targetOf(s *bad) Target {
	return Target{
		Sink: s,
		Received: func(context.Context) ([]Received, error) {
			s.mu.Lock()
			later := s.later
			s.later = nil
			s.mu.Unlock()
			for _, do := range later {
				do()
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			return slices.Clone(s.received), nil
		},
		Poison: func(e *publisher.Event) { e.Type = "poison" },
		Stop: func() func() {
			set := func(down bool) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.down = down
			}
			set(true)
			return func() { set(false) }
		},
		Stall: func() func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			c := make(chan struct{})
			s.stalled = c
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.stalled = nil
				close(c)
			}
		},
	}
}

// verdict records the errors that a rule reports.
type verdict struct {
	testing.TB
	ctx  context.Context
	mu   sync.Mutex
	said []string
}

func (v *verdict) Context() context.Context { return v.ctx }
func (v *verdict) Helper()                  {}
func (v *verdict) Error(args ...any)        { v.Errorf("%s", fmt.Sprint(args...)) }
func (v *verdict) Errorf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said = append(v.said, fmt.Sprintf(format, args...))
}
func (v *verdict) Fatal(args ...any) { v.Fatalf("%s", fmt.Sprint(args...)) }
func (v *verdict) Fatalf(format string, args ...any) {
	v.Errorf(format, args...)
	runtime.Goexit()
}

// broken returns the rules that a sink breaks. Pass a long patience for a good sink, and a short
// one for a bad sink.
func broken(
	t *testing.T, patience time.Duration, publish func(ctx context.Context, s *bad, events []publisher.Event) error,
) (names []string) {
	for _, r := range rules() {
		ctx, cancel := context.WithCancel(t.Context())
		v := &verdict{ctx: ctx}
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.check(&kit{
				TB: v, Target: targetOf(&bad{publish: publish, over: ctx.Done()}), patience: patience,
				promptly: patience, sent: map[string]publisher.Event{},
			})
		}()
		<-done
		cancel()
		if len(v.said) > 0 {
			names = append(names, r.name)
		}
	}
	return names
}

func TestASinkThatKeepsThePromisesPasses(t *testing.T) {
	t.Parallel()
	if names := broken(t, time.Minute, good); names != nil {
		t.Errorf("it breaks %q", names)
	}
}

func TestBrokenSinksAreCaught(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		publish  func(ctx context.Context, s *bad, events []publisher.Event) error
		caughtBy string // a rule that must catch it
	}{
		{"sends backwards", func(ctx context.Context, s *bad, events []publisher.Event) error {
			reversed := slices.Clone(events)
			slices.Reverse(reversed)
			return good(ctx, s, reversed)
		}, "what is published arrives in the order of each campaign"},
		{"loses the last", func(ctx context.Context, s *bad, events []publisher.Event) error {
			return good(ctx, s, events[:len(events)-1])
		}, "what is published arrives in the order of each campaign"},
		{"changes the payload", func(ctx context.Context, s *bad, events []publisher.Event) error {
			changed := slices.Clone(events)
			for i := range changed {
				changed[i].Payload = []byte(`{}`)
			}
			return good(ctx, s, changed)
		}, "what is published arrives in the order of each campaign"},
		{"sends each under a new id", func(_ context.Context, s *bad, events []publisher.Event) error {
			for _, e := range events {
				s.arrive(e, e.ID)
				s.arrive(e, uuid.New())
			}
			return nil
		}, "a batch that is sent again keeps its ids"},
		{"tells events apart by their id alone", func(ctx context.Context, s *bad, events []publisher.Event) error {
			s.mu.Lock()
			known := map[uuid.UUID]bool{}
			for _, r := range s.received {
				known[r.EventID] = true
			}
			s.mu.Unlock()
			return good(ctx, s, slices.DeleteFunc(slices.Clone(events), func(e publisher.Event) bool { return known[e.ID] }))
		}, "one id in several campaigns is as many events"},
		{"sends everything twice", func(ctx context.Context, s *bad, events []publisher.Event) error {
			return errors.Join(good(ctx, s, events), good(ctx, s, events))
		}, "a batch that is sent again keeps its ids"},
		{"sends later", func(ctx context.Context, s *bad, events []publisher.Event) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.later = append(s.later, func() { _ = good(context.WithoutCancel(ctx), s, events) })
			return nil
		}, "what is lent is not kept"},
		{"sends on behind a refused one", func(ctx context.Context, s *bad, events []publisher.Event) error {
			err := good(ctx, s, events)
			var batch *publisher.BatchError
			if errors.As(err, &batch) {
				for _, f := range batch.Failures[1:] {
					s.arrive(events[f.Index], events[f.Index].ID)
				}
				batch.Failures = batch.Failures[:1]
			}
			return err
		}, "a refused event is named, and holds back its campaign alone"},
		{"does not say which was refused", func(ctx context.Context, s *bad, events []publisher.Event) error {
			if err := good(ctx, s, events); err != nil {
				return errors.New("something was refused")
			}
			return nil
		}, "a refused event is named, and holds back its campaign alone"},
		{"waits for ever", func(ctx context.Context, s *bad, events []publisher.Event) error {
			if _, _, stalled := s.state(); stalled != nil {
				<-s.over
				return ctx.Err()
			}
			return good(ctx, s, events)
		}, "a deadline ends a Publish that is not answered"},
		{"blames events for an outage", func(ctx context.Context, s *bad, events []publisher.Event) error {
			if _, down, _ := s.state(); down {
				return &publisher.BatchError{Failures: []publisher.Failure{{Index: 0, Err: errors.New("down"), Permanent: true}}}
			}
			return good(ctx, s, events)
		}, "nothing is refused for good while the other side is down"},
		{"publishes after Close", func(ctx context.Context, s *bad, events []publisher.Event) error {
			s.mu.Lock()
			s.closed = false
			s.mu.Unlock()
			return good(ctx, s, events)
		}, "it closes, and is closed then"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if names := broken(t, 200*time.Millisecond, test.publish); !slices.Contains(names, test.caughtBy) {
				t.Errorf("%q has not noticed, only %q have", test.caughtBy, names)
			}
		})
	}
}
