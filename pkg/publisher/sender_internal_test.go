package publisher

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// sinkFunc is a sink without a Healthy method.
type sinkFunc func(events []Event) error

func (sinkFunc) Name() string { return "func" }

func (f sinkFunc) Publish(_ context.Context, events []Event) error { return f(events) }

// sent sends one event for each of the given number of campaigns, and isolates the one at fault.
func sent(t *testing.T, campaigns int, sink sinkFunc) *outcome {
	t.Helper()
	to, err := Publisher{Sink: sink}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	for i := range campaigns {
		events = append(events, Event{Event: event.Event{CampaignID: fmt.Sprint(i), Seq: 1, Position: int64(i + 1)}})
	}
	s := &sender{to: &to, probe: true, trusted: func() bool { return true }}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return s.send(ctx, events)
}

func TestOnlyAnEventThatOthersGotThroughBeforeAndAfterIsAtFault(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	refusing := func(bad ...string) sinkFunc {
		return func(events []Event) error {
			for _, e := range events {
				for _, campaign := range bad {
					if e.CampaignID == campaign {
						return down
					}
				}
			}
			return nil
		}
	}
	calls := 0
	for name, test := range map[string]struct {
		sink    sinkFunc
		sent    int
		refused string
		broken  bool
	}{
		"one in the middle":              {refusing("2"), 4, "[2]", false},
		"the first":                      {refusing("0"), 4, "[0]", false},
		"the last may be the sink's end": {refusing("4"), 4, "[]", true},
		"all":                            {refusing("0", "1", "2", "3", "4"), 0, "[]", true},
		"one that goes down in the midst": {func([]Event) error {
			if calls++; calls != 2 {
				return down
			}
			return nil
		}, 1, "[]", true},
	} {
		o := sent(t, 5, test.sink)
		refused := []int{}
		for _, r := range o.refused {
			refused = append(refused, r.index)
		}
		if o.count() != test.sent || fmt.Sprint(refused) != test.refused || (o.broken != nil) != test.broken {
			t.Errorf("%s: %d were sent, %d refused, broken: %v", name, o.count(), refused, o.broken)
		}
	}
}

func TestAnImplausibleAccountOfABatchIsNone(t *testing.T) {
	t.Parallel()
	for _, failures := range [][]Failure{
		nil,
		{{Index: 7, Err: ErrClosed}},
		{{Index: -1, Err: ErrClosed}},
		{{Index: 1}},
		{{Index: 1, Err: ErrClosed}, {Index: 1, Err: ErrClosed}},
	} {
		o := sent(t, 2, func([]Event) error { return &BatchError{Failures: failures} })
		if o.count() != 0 || len(o.refused) != 0 || o.broken == nil {
			t.Errorf("%v: %d were sent, %d refused, broken: %v", failures, o.count(), len(o.refused), o.broken)
		}
	}
}

// checked is a sink with a Healthy method.
type checked struct {
	sinkFunc
	health error
}

func (c checked) Healthy(context.Context) error { return c.health }

// The search for the event at fault must not load a sink that is down. It tries a few events, and
// none if the sink reports that it is down.
func TestASinkThatIsDownIsTriedAFewTimesOnly(t *testing.T) {
	t.Parallel()
	down, calls := errors.New("down"), 0
	failing := sinkFunc(func([]Event) error { calls++; return down })
	if o := sent(t, 100, failing); calls != 1+probesInARow || probesInARow > 10 || len(o.refused) > 0 ||
		!errors.Is(o.broken, down) {
		t.Errorf("it was called %d times, %d events were refused: %v", calls, len(o.refused), o.broken)
	}
	to, err := Publisher{Sink: checked{failing, down}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s := &sender{to: &to, probe: true, trusted: func() bool { return true }}
	calls = 0
	o := s.send(t.Context(), []Event{
		{Event: event.Event{CampaignID: "a", Seq: 1, Position: 1}},
		{Event: event.Event{CampaignID: "b", Seq: 1, Position: 2}},
	})
	if calls != 1 || len(o.refused) > 0 || !errors.Is(o.broken, down) {
		t.Errorf("one that says it is down was called %d times, %d events were refused: %v", calls, len(o.refused), o.broken)
	}
}
