package publisher

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/internal/redact"
)

const (
	// roundTime is how long a round goes on with its next batches: what has got through is only then
	// left behind, and more is taken in.
	roundTime = 50 * time.Millisecond
	// roundBatches is how many batches a lane finds in a round, on the average, if there is so much to
	// send: lanes wait for each other at its end.
	roundBatches = 4
	// roundsEvents bounds the events of all pairs' rounds together, unless each has but one batch a lane.
	roundsEvents = 64_000
)

// dispatcher gives pairs their rounds, and takes the outcome.
type dispatcher struct {
	*agenda
	reader  *reader
	parker  *parker
	saver   *saver
	history *history
}

// advance does the next thing for a pair.
func (d *dispatcher) advance(p *pair, now time.Time) {
	switch {
	case p.busy || p.leaving: // a leaving pair is given back by save
	case now.After(p.trusted):
		// Nothing more is sent under a lease that may be another's. A save that gets through makes it ours again.
		d.at(now.Add(d.tickEvery))
	case now.Before(p.notBefore):
		d.at(p.notBefore)
	case len(p.parks) > 0:
		d.parker.writeParks(p)
	case len(p.pending) > 0 && p.failures > 0:
		d.sendRound(p)
	default:
		d.fill(p, now)
	}
}

// fill gives a pair its next round, what is left of the last one and more from memory, or lets it wait for a page.
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
		p.pending = nil // there may be many pairs that wait
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

// sendRound sends what is pending.
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

// finished takes the outcome of a round.
func (d *dispatcher) finished(p *pair, o *outcome) {
	p.busy = false
	d.history.remember(p, o.taken(p.pending))
	if d.pairs[p.Key] != p {
		return // lost meanwhile: its holder sends all of it again
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
		if p.failing = nil; sent == 0 && p.failures > 0 { // where events got through, writing their position says so
			p.failing = &failing{why: redact.Error(o.refused[0].err)}
			d.saver.writeFailing(p)
		}
		p.failures = 0
	case errors.Is(broken, errUntrusted) || p.ctx.Err() != nil:
	default:
		d.saver.fail(p, broken, now)
	}
}

// refuse decides on events that were refused by themselves: what is parked leaves the round, with
// what is behind it in its campaign. It answers why the pair has to wait, or nil.
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

// blockedError is why a pair under the policy Block waits.
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
	return &blockedError{refusal: f, event: e, attempts: p.blockedFor, final: f.permanent || p.blockedFor >= p.to.Attempts}
}
