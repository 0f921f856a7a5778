package publisher

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// dispatcher gives pairs their rounds, and takes the outcome.
type dispatcher struct {
	*agenda
	reader  *reader
	parker  *parker
	saver   *saver
	history *history
}

// sendRound sends what is pending.
func (d *dispatcher) sendRound(p *pair) {
	p.busy = true
	events, trusted, ctx := p.pending, p.trusted, p.ctx
	s := &sender{to: &p.to, probe: p.failures > 1 && p.failures&(p.failures-1) == 0, trusted: func() bool { return time.Now().Before(trusted) }, tracer: p.tracer}
	d.job(func() func() {
		started := time.Now()
		o := s.send(ctx, events)
		took := time.Since(started)
		return func() {
			d.metrics.send.WithLabelValues(p.Topic, p.Publisher).Observe(took.Seconds())
			d.finished(p, o)
		}
	})
}

// finished takes the outcome of a round.
func (d *dispatcher) finished(p *pair, o *outcome) {
	p.busy = false
	d.history.remember(p, o.sent)
	if d.pairs[p.Key] != p {
		return // lost meanwhile: whoever has it now sends all of it again
	}
	now := time.Now()
	defer d.look(p)
	sent := o.count()
	if sent > 0 {
		p.published += int64(sent)
		p.lastSuccess = now
		d.metrics.published.WithLabelValues(p.Topic, p.Publisher).Add(float64(sent))
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
			p.failing = &failing{why: shortened(o.refused[0].err)}
			d.saver.writeFailing(p)
		}
		p.failures = 0
	case errors.Is(broken, errUntrusted) || p.ctx.Err() != nil:
	default:
		d.saver.fail(p, broken, now)
	}
}

// keep drops pending events. It writes to a fresh slice where it must, since the sink may not have let go of a cancelled batch.
func (p *pair) keep(kept func(i int) bool) {
	rest := make([]Event, 0, cap(p.pending))
	for i := range p.pending {
		if kept(i) {
			rest = append(rest, p.pending[i])
		}
	}
	p.pending = rest
}

// refuse decides on events that were refused by themselves: what is parked leaves the round, with what is behind it in its campaign. It answers why the pair has to wait, or nil.
func (d *dispatcher) refuse(p *pair, o *outcome) error {
	if len(o.refused) > 0 {
		d.metrics.refused.WithLabelValues(p.Topic, p.Publisher).Add(float64(len(o.refused)))
	}
	for _, f := range o.refused {
		e := p.pending[f.index]
		if p.to.OnRefusal == Block {
			return p.block(&e, f)
		}
		p.parks = append(p.parks, park{event: e, attempts: 1, err: f.err, final: f.permanent || p.to.Attempts <= 1})
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

func (e *blockedError) Error() string { return describe(e.event, e.attempts, e.err) }
func (e *blockedError) Unwrap() error { return e.err }

func (p *pair) block(e *Event, f refusal) error {
	if p.blocked != e.Position {
		p.blocked, p.blockedFor = e.Position, 0
	}
	p.blockedFor++
	return &blockedError{refusal: f, event: e, attempts: p.blockedFor, final: f.permanent || p.blockedFor >= p.to.Attempts}
}

// fail lets a pair wait, and says so in its row. It costs no event an attempt.
func (s *saver) fail(p *pair, err error, now time.Time) {
	p.failures++
	wait := backoff(p.failures, p.to.BackoffMax, rand.Float64())
	var after *retryAfterError
	if errors.As(err, &after) && after.after > wait {
		wait = min(after.after, retryAfterMax)
	}
	p.notBefore = now.Add(wait)
	s.metrics.failures.WithLabelValues(p.Topic, p.Publisher).Inc()
	var blocked *blockedError
	switch {
	case isPause(err):
		s.halt(p, "PAUSED", err)
		return
	case errors.As(err, &blocked) && blocked.final:
		s.halt(p, "FAILED", err)
		return
	}
	s.cfg.Logger.WarnContext(s.ctx, "publishing fails", "topic", p.Topic, "publisher", p.Publisher, "error", shortened(err), "failures", p.failures, "wait", wait)
	p.failing = &failing{failures: p.failures, why: shortened(err), wait: wait}
	s.writeFailing(p)
}

// failing is how a pair fails, for its row.
type failing struct {
	failures int
	why      string
	wait     time.Duration
}

// writeFailing writes how a pair fails, one after the other and never beside a position: what is written last must be what was last.
func (s *saver) writeFailing(p *pair) {
	f := p.failing
	if f == nil || p.reporting || s.saving || p.halting != nil {
		return
	}
	p.failing, p.reporting = nil, true
	ctx := s.ctx
	s.job(func() func() {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.LeaseTTL/4)
		defer cancel()
		_, err := s.db.exec(ctx, queryFail, p.Topic, p.Publisher, s.owner, p.generation, f.failures, f.why, f.wait)
		return func() {
			p.reporting = false
			s.unwritten(err, "how a pair fails")
			s.writeHalt(p)
			s.writeFailing(p)
		}
	})
}

// retryAfterMax bounds what a sink may ask for.
const retryAfterMax = 5 * time.Minute

// halting is how a pair stops.
type halting struct {
	status  string
	why     error
	writing bool
}

// halt stops a pair until an operator acts. What it has published is written first.
func (s *saver) halt(p *pair, status string, why error) {
	if p.busy {
		return // a campaign was being brought back: the round will meet with the same
	}
	s.cfg.Logger.ErrorContext(s.ctx, "publishing stops", "topic", p.Topic, "publisher", p.Publisher, "status", status, "error", shortened(why))
	p.busy, p.failing = true, nil
	p.halting = &halting{status: status, why: why}
	s.writeHalt(p)
}

// writeHalt writes that a pair stops, once neither a position of it is being written, which would prolong the lease that goes with it, nor a failure.
func (s *saver) writeHalt(p *pair) {
	h := p.halting
	if h == nil || h.writing || s.saving || p.reporting {
		return
	}
	h.writing = true
	ctx, instance, move := s.ctx, s.instance, p.move(false)
	s.job(func() func() {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.LeaseTTL)
		defer cancel()
		batch := &pgx.Batch{}
		queueMoves(batch, s.owner, instance, s.cfg.LeaseTTL, []written{move})
		batch.Queue(queryHalt, p.Topic, p.Publisher, s.owner, p.generation, h.status, shortened(h.why))
		err := s.db.send(ctx, batch)
		return func() {
			p.busy, p.halting = false, nil
			if err != nil {
				s.unwritten(err, "that a pair stops")
				s.look(p) // it will fail and be halted again
				return
			}
			s.drop(p)
		}
	})
}

func (b *base) unwritten(err error, what string) {
	if err != nil && b.ctx.Err() == nil {
		b.cfg.Logger.WarnContext(b.ctx, "cannot write "+what, "error", err)
	}
}
