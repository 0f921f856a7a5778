package webhook

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// suspectsInARow events must fail with no success between them for the endpoint to count as down.
const suspectsInARow = 4

type batch struct {
	sink    *sink
	events  []publisher.Event
	outcome *delivery.Outcome

	mu     sync.Mutex
	begun  int    // requests so far
	good   int    // the latest successful request, by number; 0: none
	row    int    // suspects since the last success
	sent   []bool // by event
	failed map[int]failure
	broken error // why the endpoint as a whole fails
}

// failure is a refused event, with the number of requests begun until then. A suspect is at fault
// if a request begun later succeeds.
type failure struct {
	*refusal
	begun int
}

// send sends all campaigns, several at once, and returns the result for the batch.
func (s *sink) send(ctx context.Context, events []publisher.Event) error {
	b := &batch{
		sink: s, events: events, outcome: delivery.Of(events), sent: make([]bool, len(events)), failed: map[int]failure{},
	}
	var lanes errgroup.Group
	lanes.SetLimit(s.cfg.Concurrency)
	for _, campaign := range b.outcome.ByCampaign() {
		lanes.Go(func() error {
			b.sendCampaign(ctx, campaign)
			return nil
		})
	}
	_ = lanes.Wait()
	return b.result()
}

// sendCampaign sends the events of a campaign, given their indexes.
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

// begin numbers a request. It returns false if no more requests may start.
func (b *batch) begin() (number int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun++
	return b.begun, b.broken == nil
}

func (b *batch) fails(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = cmp.Or(b.broken, err)
}

// done records the result of an event and reports whether its campaign continues.
func (b *batch) done(i, number int, err error) bool {
	var refused *refusal
	if err != nil && !errors.As(err, &refused) {
		b.fails(err)
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if refused == nil {
		b.sent[i], b.good, b.row = true, max(b.good, number), 0
		return true
	}
	b.failed[i] = failure{refused, b.begun}
	if refused.suspect {
		if b.row++; b.row >= suspectsInARow && b.broken == nil {
			b.broken = refused.err
		}
	}
	return false
}

func (b *batch) result() error {
	cause, known := b.broken, slices.Contains(b.sent, true) // known: the result of some event is known
	for i := range b.events {
		if b.sent[i] || b.outcome.Behind(i) {
			continue
		}
		f, failed := b.failed[i]
		if failed && (!f.suspect || f.begun < b.good) {
			known = true
			b.outcome.Fail(i, f.err, f.permanent)
			continue
		}
		if failed && cause == nil {
			cause = f.err
		}
		b.outcome.Fail(i, publisher.ErrNotTried, false)
	}
	err := b.outcome.Err()
	switch {
	case err == nil || cause == nil:
		return err
	case !known:
		return cause
	}
	return &partly{err, cause}
}

// partly reports the events that were not sent, and why the rest cannot be sent.
type partly struct{ failures, cause error }

func (p *partly) Error() string   { return p.cause.Error() }
func (p *partly) Unwrap() []error { return []error{p.cause, p.failures} }
