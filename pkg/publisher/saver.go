package publisher

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

const (
	// Positions are written at most every saveEvery, plus savePair for each pair that moves, up to saveMost:
	// many pairs must not keep the database busy with positions. What a crash forgets is sent again.
	saveEvery = 20 * time.Millisecond
	savePair  = 2 * time.Millisecond
	saveMost  = 500 * time.Millisecond
	// passEvery is how often a pair's position is written while it only skips events of other topics.
	passEvery = 5 * time.Second
)

// saver writes the rows of pairs: positions, failures, and stops.
type saver struct {
	*agenda
	saving    bool
	lastSave  time.Time
	lastMoved int // pairs whose position was written then
}

type written struct {
	ledger.Move
	pair *pair
}

func (p *pair) move(release bool) written {
	return written{ledger.Move{
		Key: p.Key, Generation: p.generation, To: p.acked, Published: p.published,
		Release: release,
	}, p}
}

func (p *pair) giveBack(position int64) written {
	return written{ledger.Move{Key: p.Key, Generation: p.generation, To: position, Release: true}, p}
}

// save writes positions, renews leases, and releases leaving pairs, all in one statement.
func (s *saver) save(now time.Time) {
	if s.saving {
		return
	}
	every := saveEvery
	if !s.hurry {
		every = savePause(s.lastMoved)
	}
	if next := s.lastSave.Add(every); now.Before(next) && (!s.stopping || now.Before(s.lastSave)) {
		s.at(next)
		return
	}
	var moves []written
	hurry := false
	for _, p := range s.pairs {
		hurry = hurry || p.leaving && (p.busy || len(p.draining) > 0)
		renew := p.trusted.Add(-s.cfg.LeaseTTL * 2 / 3)
		switch {
		case p.halting != nil, p.reporting: // writes of a pair's row come one after the other
		case p.leaving && !p.busy && len(p.draining) == 0:
			moves = append(moves, p.move(true))
		case p.published > 0, !now.Before(renew), !p.changed.IsZero() && now.Sub(p.changed) >= passEvery:
			moves = append(moves, p.move(false))
		default:
			s.at(renew)
		}
	}
	s.hurry = hurry
	if len(moves) == 0 {
		return
	}
	s.saving, s.lastSave, s.lastMoved = true, now, len(moves)
	s.write(moves, func(kept map[publications.Key]bool, err error) { s.saved(moves, kept, err, now) })
}

// savePause returns the time between writes after one of this many positions.
func savePause(moved int) time.Duration {
	return min(saveEvery+time.Duration(moved)*savePair, saveMost)
}

// write writes moves. then gets the pairs that are still ours.
func (s *saver) write(moves []written, then func(kept map[publications.Key]bool, err error)) {
	rows := slice.Of(moves, func(m written) ledger.Move { return m.Move })
	var kept map[publications.Key]bool
	instance := s.instance
	s.timed(s.cfg.LeaseTTL/2, func(ctx context.Context) (err error) {
		kept, err = s.db.Move(ctx, instance, rows)
		return err
	}, func(err error) { then(kept, err) })
}

// saved applies a write's result. By our clock leases run from started, the time before the request.
func (s *saver) saved(moves []written, kept map[publications.Key]bool, err error, started time.Time) {
	s.saving = false
	defer func() {
		for _, p := range s.pairs {
			s.writeHalt(p)
			s.writeFailing(p)
		}
	}()
	if err != nil {
		s.unwritten(err, "positions")
		s.lastSave = time.Now().Add(100 * time.Millisecond) // not at once
		s.at(s.lastSave.Add(saveEvery))
		return
	}
	for _, m := range moves {
		p := m.pair
		if s.pairs[p.Key] != p {
			continue
		}
		switch {
		case !kept[m.Key]:
			s.metrics.Lost.Inc()
			s.cfg.Logger.WarnContext(s.ctx, "a pair was taken over", "topic", p.Topic, "publisher", p.Publisher)
			s.drop(p)
		case m.Release:
			s.drop(p)
		default:
			p.saved = max(p.saved, m.To)
			p.published -= m.Published
			p.trusted = started.Add(s.cfg.LeaseTTL)
			if p.changed = (time.Time{}); p.acked > p.saved {
				p.changed = time.Now()
			}
			s.look(p)
		}
	}
}

func (s *saver) release(back []written) {
	if len(back) > 0 {
		s.write(back, func(_ map[publications.Key]bool, err error) { s.unwritten(err, "that pairs are given back") })
	}
}

// fail makes a pair wait and records why. It costs no event an attempt.
func (s *saver) fail(p *pair, err error, now time.Time) {
	p.failures++
	wait := p.to.backoff(p.failures, err)
	p.notBefore = now.Add(wait)
	s.metrics.Failures.WithLabelValues(p.Topic, p.Publisher).Inc()
	switch blocked, ok := errors.AsType[*blockedError](err); {
	case isPause(err):
		s.halt(p, "PAUSED", err)
		return
	case ok && blocked.final:
		s.halt(p, "FAILED", err)
		return
	}
	s.cfg.Logger.WarnContext(s.ctx, "publishing fails", "topic", p.Topic, "publisher", p.Publisher,
		"error", redact.Error(err), "failures", p.failures, "wait", wait)
	p.failing = &failing{failures: p.failures, why: redact.Error(err), wait: wait}
	s.writeFailing(p)
}

// retryAfterMax limits the wait that a sink may ask for.
const retryAfterMax = 5 * time.Minute

// backoff returns the wait after consecutive failures, or the sink's own if that is longer.
func (p *Publisher) backoff(failures int, err error) time.Duration {
	wait := loops.Backoff(failures, 100*time.Millisecond, p.BackoffMax)
	if after, ok := errors.AsType[retryAfter](err); ok {
		wait = max(wait, min(time.Duration(after), retryAfterMax))
	}
	return wait
}

type failing struct {
	failures int
	why      string
	wait     time.Duration
}

// writeFailing writes one failure at a time, never beside a position: the last write is the latest state.
func (s *saver) writeFailing(p *pair) {
	f := p.failing
	if f == nil || p.reporting || s.saving || p.halting != nil {
		return
	}
	p.failing, p.reporting = nil, true
	s.timed(s.cfg.LeaseTTL/4, func(ctx context.Context) error {
		return s.db.Fail(ctx, p.Key, p.generation, f.failures, f.why, f.wait)
	}, func(err error) {
		p.reporting = false
		s.unwritten(err, "how a pair fails")
		s.writeHalt(p)
		s.writeFailing(p)
	})
}

type halting struct {
	status  string
	why     error
	writing bool
}

// halt stops a pair until an operator acts. It also writes what the pair has published.
func (s *saver) halt(p *pair, status string, why error) {
	if p.busy {
		return // a catch-up failed: the round will get the same error
	}
	s.cfg.Logger.ErrorContext(s.ctx, "publishing stops", "topic", p.Topic, "publisher", p.Publisher, "status", status,
		"error", redact.Error(why))
	p.busy, p.failing = true, nil
	p.halting = &halting{status: status, why: why}
	s.writeHalt(p)
}

// writeHalt writes a pair's stop, which ends its lease. It waits for a current write of the pair's
// failure, or of its position, which would renew the lease.
func (s *saver) writeHalt(p *pair) {
	h := p.halting
	if h == nil || h.writing || s.saving || p.reporting {
		return
	}
	h.writing = true
	instance, move := s.instance, p.move(false)
	s.timed(s.cfg.LeaseTTL, func(ctx context.Context) error {
		return s.db.Halt(ctx, instance, move.Move, h.status, redact.Error(h.why))
	}, func(err error) {
		p.busy, p.halting = false, nil
		if err != nil {
			s.unwritten(err, "that a pair stops")
			s.look(p) // it will fail and be halted again
			return
		}
		s.drop(p)
	})
}
