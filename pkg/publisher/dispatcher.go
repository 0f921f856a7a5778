package publisher

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
)

const (
	// roundTime is how long a round starts further batches. Its progress is recorded only at its end.
	roundTime = 50 * time.Millisecond
	// roundBatches is a full round's batches per lane, on average: lanes wait for each other at its end.
	roundBatches = 4
	// roundsEvents limits the events of all rounds together, but each lane always gets one batch.
	roundsEvents = 64_000
)

// dispatcher sends pairs' rounds and handles the outcomes.
type dispatcher struct {
	*agenda
	reader  *reader
	parker  *parker
	saver   *saver
	history *history
}

// advance starts the next step of a pair.
func (d *dispatcher) advance(p *pair, now time.Time) {
	switch {
	case p.busy || p.leaving: // save releases leaving pairs
	case now.After(p.trusted):
		// Send nothing under a lease that may be another's. A successful save makes it ours again.
		d.at(now.Add(d.tickEvery))
	case now.Before(p.notBefore):
		d.at(p.notBefore)
	case len(p.parks) > 0:
		d.parker.writeParks(p)
	case p.erased:
		p.forget()
		d.fill(p, now)
	case len(p.pending) > 0 && p.failures > 0:
		d.sendRound(p)
	default:
		d.fill(p, now)
	}
}

// fill starts the pair's next round, from what is left of the last one and from cached pages.
// Without events it marks the pair as waiting for a page.
func (d *dispatcher) fill(p *pair, now time.Time) {
	room, before := d.room(p), p.read
	for len(p.pending) < room {
		page := d.reader.cache.At(p.read)
		if page == nil {
			break
		}
		p.take(page, room)
	}
	p.settle(now)
	if len(p.pending) > 0 {
		p.wanting, p.polled, p.empty, p.nextPoll = false, false, 0, time.Time{}
		d.sendRound(p)
		d.reader.prefetch(p, now)
		return
	}
	if p.read >= d.reader.head {
		p.pending = nil // many pairs may be waiting
	}
	d.reader.hungry = true
	if !p.wanting || p.read > before {
		p.wanting, p.since = true, now
	}
	if p.polled && p.read >= d.reader.head {
		p.empty++
		p.nextPoll = now.Add(d.reader.pollDelay(p))
	}
	p.polled = false
}

// room is how many events a round of the pair may have.
func (d *dispatcher) room(p *pair) int {
	full := p.to.BatchSize * p.to.Concurrency
	return max(full, min(full*roundBatches, roundsEvents/max(len(d.pairs), 1)))
}

func (d *dispatcher) sendRound(p *pair) {
	p.busy = true
	events, trusted, ctx := p.pending, p.trusted, p.ctx
	s := &sender{to: &p.to, probe: p.failures > 1 && p.failures&(p.failures-1) == 0, trusted: func() bool {
		return time.Now().Before(trusted)
	}, tracer: p.tracer}
	d.job(func() func() {
		started := time.Now()
		o := s.send(ctx, events)
		took := time.Since(started)
		return func() {
			d.metrics.Send.WithLabelValues(p.Topic, p.Publisher).Observe(took.Seconds())
			d.finished(p, o)
		}
	})
}

func (d *dispatcher) finished(p *pair, o *outcome) {
	p.busy = false
	d.history.remember(p, o.taken(p.pending))
	if d.pairs[p.Key] != p {
		return // lost meanwhile: the new holder sends everything again
	}
	now := time.Now()
	defer d.look(p)
	sent := o.count()
	if sent > 0 {
		p.published += int64(sent)
		p.lastSuccess = now
		d.metrics.Published.WithLabelValues(p.Topic, p.Publisher).Add(float64(sent))
	}
	if sent == len(p.pending) {
		p.pending, p.failures, p.failing, p.blockedFor = p.pending[:0], 0, nil, 0
		p.settle(now)
		return
	}
	broken := d.refuse(p, o)
	if broken == nil && sent == 0 && len(o.refused) == 0 {
		broken = errors.New("the sink has published nothing and named no event at fault")
	}
	p.keep(func(i int) bool { return !o.sent[i] })
	p.settle(now)
	switch {
	case broken == nil:
		if p.failing = nil; sent == 0 && p.failures > 0 { // if events got through, saving their position says so
			p.failing = &failing{why: redact.Error(o.refused[0].err)}
			d.saver.writeFailing(p)
		}
		p.failures = 0
	case errors.Is(broken, errUntrusted) || p.ctx.Err() != nil:
	default:
		d.saver.fail(p, broken, now)
	}
}

// refuse handles refused events: they will be parked and leave the round, with the later events of
// their campaigns. It returns why the pair must wait, or nil.
func (d *dispatcher) refuse(p *pair, o *outcome) error {
	if len(o.refused) > 0 {
		d.metrics.Refused.WithLabelValues(p.Topic, p.Publisher).Add(float64(len(o.refused)))
	}
	for _, f := range o.refused {
		e := p.pending[f.index]
		if p.to.OnRefusal == Block {
			return p.block(&e, f)
		}
		p.parks = append(p.parks, p.refused(&e, 1, f.err, f.permanent))
	}
	return o.broken
}

// blockedError is why a pair waits under the policy Block.
type blockedError struct {
	refusal
	event    *Event
	attempts int
	final    bool
}

func (e *blockedError) Error() string {
	return fmt.Sprintf("event %d of campaign %s (%s, %s) was refused, attempt %d: %v", e.event.Seq, e.event.CampaignID,
		e.event.Type, e.event.ID, e.attempts, e.err)
}
func (e *blockedError) Unwrap() error { return e.err }

func (p *pair) block(e *Event, f refusal) error {
	if p.blocked != e.Position {
		p.blocked, p.blockedFor = e.Position, 0
	}
	p.blockedFor++
	usedUp := p.blockedFor >= p.to.Attempts && !errors.Is(f.err, catalogue.ErrWrappingKey)
	return &blockedError{refusal: f, event: e, attempts: p.blockedFor, final: f.permanent || usedUp}
}
