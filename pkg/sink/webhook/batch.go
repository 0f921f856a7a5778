package webhook

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// suspectsInARow is how many events, with none that gets through between them, must fail for the
// endpoint to be taken as down.
const suspectsInARow = 4

// batch is a call of Publish.
type batch struct {
	sink      *sink
	events    []publisher.Event
	outcome   *delivery.Outcome
	campaigns [][]int // places of a campaign's events, in order

	mu       sync.Mutex
	next     int    // campaign
	begun    int    // requests so far
	good     int    // the latest of them that got through, by when it was begun; 0: none
	row      int    // suspects since one got through
	sent     []bool // by event
	refused  map[int]*refusal
	suspects map[int]suspicion
	broken   error // why the endpoint as a whole does not work
}

// suspicion is an event that failed, with the number of requests that were begun until then: it is at
// fault if one begun later gets through.
type suspicion struct {
	err   error
	begun int
}

func newBatch(s *sink, events []publisher.Event) *batch {
	outcome := delivery.Of(events)
	return &batch{
		sink: s, events: events, outcome: outcome, campaigns: outcome.ByCampaign(), sent: make([]bool, len(events)),
		refused: map[int]*refusal{}, suspects: map[int]suspicion{},
	}
}

// send sends all campaigns, several at once, and says what became of the events.
func (b *batch) send(ctx context.Context) error {
	var lanes sync.WaitGroup
	for range min(b.sink.cfg.Concurrency, len(b.campaigns)) {
		lanes.Go(func() {
			for campaign := b.take(); campaign != nil; campaign = b.take() {
				b.sendCampaign(ctx, campaign)
			}
		})
	}
	lanes.Wait()
	return b.result()
}

// take answers the next campaign, or nil.
func (b *batch) take() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil || b.next == len(b.campaigns) {
		return nil
	}
	b.next++
	return b.campaigns[b.next-1]
}

func (b *batch) sendCampaign(ctx context.Context, campaign []int) {
	for _, i := range campaign {
		release, err := b.sink.slot(ctx)
		if err != nil {
			b.fails(err)
			return
		}
		number, ok := b.begin()
		if ok {
			err = b.sink.post(ctx, &b.events[i])
		}
		release()
		if !ok || !b.done(i, number, err) {
			return
		}
	}
}

// begin numbers a request, unless none is to be made any more.
func (b *batch) begin() (number int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun++
	return b.begun, b.broken == nil
}

func (b *batch) fails(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken == nil {
		b.broken = err
	}
}

// done takes note of what became of an event, and tells whether its campaign goes on.
func (b *batch) done(i, number int, err error) bool {
	var refused *refusal
	var suspected *suspect
	switch {
	case err == nil:
	case errors.As(err, &refused), errors.As(err, &suspected):
	default:
		b.fails(err)
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case refused != nil:
		b.refused[i] = refused
	case suspected != nil:
		b.suspects[i] = suspicion{suspected.err, b.begun}
		if b.row++; b.row >= suspectsInARow && b.broken == nil {
			b.broken = suspected.err
		}
	default:
		b.sent[i], b.good, b.row = true, max(b.good, number), 0
	}
	return err == nil
}

// result is what Publish returns.
func (b *batch) result() error {
	outcome, cause := b.outcome, b.broken
	for i := range b.events {
		if b.sent[i] || outcome.Behind(i) {
			continue
		}
		suspected, isSuspect := b.suspects[i]
		switch refused := b.refused[i]; {
		case refused != nil:
			outcome.Fail(i, refused.err, refused.permanent)
		case isSuspect && suspected.begun < b.good:
			outcome.Fail(i, suspected.err, false)
		default:
			if isSuspect && cause == nil {
				cause = suspected.err
			}
			outcome.Fail(i, publisher.ErrNotTried, false)
		}
	}
	err := outcome.Err()
	switch {
	case err == nil || cause == nil:
		return err
	case len(b.refused) == 0 && !slices.Contains(b.sent, true):
		return cause
	}
	return &partly{err, cause}
}

// partly says which events were not sent, and why the others cannot be.
type partly struct{ failures, cause error }

func (p *partly) Error() string   { return p.cause.Error() }
func (p *partly) Unwrap() []error { return []error{p.cause, p.failures} }
