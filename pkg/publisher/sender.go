package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/tracing"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
)

type outcome struct {
	sent    []bool    // by event
	refused []refusal // events refused by themselves
	broken  error     // why the others were not sent; nil: none are left
}

type refusal struct {
	index     int
	err       error
	permanent bool
}

// faulty is the refusal of an event that cannot be sent. One whose key is out of reach may be sent later.
func faulty(index int, err error) refusal {
	return refusal{index, err, !errors.Is(err, catalogue.ErrWrappingKey)}
}

func (o *outcome) count() int { return slice.Count(o.sent, func(sent bool) bool { return sent }) }

func (o *outcome) taken(events []Event) iter.Seq[ledger.Sent] {
	return func(yield func(ledger.Sent) bool) {
		for i, sent := range o.sent {
			if sent && !yield(sentOf(&events[i])) {
				return
			}
		}
	}
}

// sender sends the events of one pair. One goroutine uses it at a time, with the lanes that it starts.
type sender struct {
	to      *Publisher
	trusted func() bool // the lease is certainly held
	probe   bool        // the sink failed as a whole before: find out whether a single event is at fault
	tracer  *tracing.Tracer
}

// errUntrusted ends a round whose lease may be another's by now.
var errUntrusted = errors.New("the lease could not be renewed in time")

// send sends events, in lanes if there are more than a batch, and returns the outcome.
func (s *sender) send(ctx context.Context, events []Event) *outcome {
	o := (&round{sender: s, events: events, until: time.Now().Add(roundTime)}).run(ctx)
	if o.broken != nil && s.probe && ctx.Err() == nil && !blamesNobody(o.broken) {
		s.isolate(ctx, events, o)
	}
	s.judge(ctx, o)
	return o
}

// batch sends at most one batch of events, and sets sent for those that got through.
func (s *sender) batch(ctx context.Context, events []Event, sent []bool) (refused []refusal, broken error) {
	kept, rest := []int(nil), events // indexes, if some events are left out
	failed := map[string]bool(nil)
	if slices.ContainsFunc(events, func(e Event) bool { return e.fault != nil }) {
		failed = map[string]bool{}
		kept, rest = make([]int, 0, len(events)), make([]Event, 0, len(events))
		for i := range events {
			switch e := &events[i]; {
			case failed[e.CampaignID]:
			case e.fault != nil:
				failed[e.CampaignID] = true
				refused = append(refused, faulty(i, e.fault))
			default:
				kept, rest = append(kept, i), append(rest, *e)
			}
		}
		if len(rest) == 0 {
			return refused, nil
		}
	}
	place := func(i int) int {
		if kept == nil {
			return i
		}
		return kept[i]
	}
	err := s.publish(ctx, rest)
	if err == nil {
		for i := range rest {
			sent[place(i)] = true
		}
		return refused, nil
	}
	var partly *BatchError
	if !errors.As(err, &partly) || !plausible(partly, len(rest)) {
		return refused, err
	}
	stuck := false // a campaign waits, and none of its events is at fault
	behind, failures := map[string]bool{}, partly.Failures
	for i := range rest {
		campaign := rest[i].CampaignID
		if len(failures) == 0 || failures[0].Index > i {
			// If a sink sent events of a campaign after a failed one, they are sent again, in order.
			sent[place(i)] = !behind[campaign]
			continue
		}
		switch f := failures[0]; {
		case behind[campaign]:
		case errors.Is(f.Err, ErrNotTried) || isPause(f.Err):
			stuck = true
		default:
			refused = append(refused, refusal{place(i), f.Err, f.Permanent})
		}
		behind[campaign], failures = true, failures[1:]
	}
	if stuck || isPause(err) {
		return refused, err
	}
	return refused, nil
}

// plausible reports whether a sink's batch error is consistent. Otherwise nothing is known.
func plausible(e *BatchError, n int) bool {
	last := -1
	for _, f := range e.Failures {
		if f.Index <= last || f.Index >= n || f.Err == nil {
			return false
		}
		last = f.Index
	}
	return len(e.Failures) > 0
}

// publish calls the sink, within the publisher's timeout.
func (s *sender) publish(ctx context.Context, batch []Event) (err error) {
	if !s.trusted() {
		return errUntrusted
	}
	ctx, cancel := context.WithTimeout(ctx, s.to.Timeout)
	defer cancel()
	ctx, span := s.tracer.Start(ctx)
	tracing.Link(span, batch, func(e *Event) []byte { return e.Metadata })
	defer func() { span.End(len(batch), err) }()
	return callSink(ctx, s.to.Sink, batch)
}

// probesInARow single events of different campaigns must fail in a row for the sink to count as down.
const probesInARow = 4

// isolate sends what is left one by one, to find out whether single events are at fault. Failed
// ones are, if a later one gets through: the sink was up before and after.
func (s *sender) isolate(ctx context.Context, events []Event, o *outcome) {
	if s.healthy(ctx) == unhealthy {
		return
	}
	failed := map[string]bool{}
	for _, r := range o.refused {
		failed[events[r.index].CampaignID] = true
	}
	var suspects []refusal
	for i := range events {
		if o.sent[i] || failed[events[i].CampaignID] {
			continue
		}
		if ctx.Err() != nil || !s.trusted() {
			return
		}
		if events[i].fault != nil {
			failed[events[i].CampaignID] = true
			o.refused = append(o.refused, faulty(i, events[i].fault))
			continue
		}
		err := s.publish(ctx, events[i:i+1])
		if err == nil {
			o.sent[i] = true
			o.refused, suspects = append(o.refused, suspects...), nil
			continue
		}
		if isPause(err) {
			o.broken = err
			return
		}
		permanent := false
		if single, ok := errors.AsType[*BatchError](err); ok && plausible(single, 1) {
			err, permanent = single.Failures[0].Err, single.Failures[0].Permanent
		}
		failed[events[i].CampaignID] = true
		suspects = append(suspects, refusal{i, err, permanent})
		o.broken = err
		if len(suspects) >= probesInARow {
			return
		}
	}
	if len(suspects) > 0 && s.healthy(ctx) == healthy && s.failsAgain(ctx, o, events, suspects[0]) {
		o.refused = append(o.refused, suspects...)
		suspects = nil
	}
	if len(suspects) == 0 {
		o.broken = nil
	}
}

// failsAgain retries a suspect at a sink that just reported healthy, and asks again. An event that
// fails between two healthy reports is at fault.
func (s *sender) failsAgain(ctx context.Context, o *outcome, events []Event, suspect refusal) bool {
	if suspect.permanent {
		return true
	}
	if ctx.Err() != nil || !s.trusted() {
		return false
	}
	if s.publish(ctx, events[suspect.index:suspect.index+1]) == nil {
		o.sent[suspect.index] = true
		return false
	}
	return s.healthy(ctx) == healthy
}

// judge drops refusals that may not be the event's fault: if nothing got through and the sink does
// not report healthy, it may be down. Permanent refusals stand.
func (s *sender) judge(ctx context.Context, o *outcome) {
	passing := func(r refusal) bool { return !r.permanent && !errors.Is(r.err, catalogue.ErrWrappingKey) }
	first := slices.IndexFunc(o.refused, passing)
	if first < 0 || o.count() > 0 || s.healthy(ctx) == healthy {
		return
	}
	o.broken = cmp.Or(o.broken, o.refused[first].err)
	o.refused = slices.DeleteFunc(o.refused, passing)
}

type health int

const (
	unknown health = iota
	healthy
	unhealthy
)

func (s *sender) healthy(ctx context.Context) health {
	checker, ok := s.to.Sink.(HealthChecker)
	if !ok {
		return unknown
	}
	ctx, cancel := context.WithTimeout(ctx, min(s.to.Timeout, healthTimeout))
	defer cancel()
	ask := func() (err error) {
		defer recovered(&err, s.to.Sink)
		return checker.Healthy(ctx)
	}
	if ask() != nil {
		return unhealthy
	}
	return healthy
}

const healthTimeout = 5 * time.Second

// callSink removes values of the batch from the sink's errors.
func callSink(ctx context.Context, sink Sink, batch []Event) (err error) {
	defer func() { err = withoutValues(err, batch) }()
	defer recovered(&err, sink)
	return sink.Publish(ctx, batch)
}

// recovered turns a panic of the sink into an error. Defer it.
func recovered(err *error, sink Sink) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("sink %s panicked: %v\n%s", sink.Name(), r, debug.Stack())
	}
}
