package projector

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-go/tidemark/pkg/lease"
)

// worker applies assignments until there are no more.
func (p *Projector) worker(ctx context.Context, stopping <-chan struct{}, work <-chan []*unit) {
	failures := 0
	for units := range work {
		err := p.process(ctx, stopping, units)
		if err == nil || ctx.Err() != nil {
			failures = 0
			continue
		}
		wait := p.backoff(failures)
		failures++
		p.cfg.Logger.WarnContext(ctx, "group not applied", "error", err, "wait", wait)
		pause(ctx, wait)
	}
}

// process applies an assignment, each unit once or, if it was cut off by others' events, once more. What it does not reach it gives back.
func (p *Projector) process(ctx context.Context, stopping <-chan struct{}, units []*unit) error {
	all := units
	ctx, drop := context.WithCancel(ctx)
	defer drop()
	p.work(units, drop)
	defer func() {
		if len(units) > 0 {
			p.giveBack(ctx, units)
		}
		p.letGo(all)
		p.working.Add(-1)
		signal(p.free)
	}()
	p.cfg.OnStep(StepClaimed)
	for len(units) > 0 {
		select {
		case <-stopping:
			return nil
		default:
		}
		rest, err := p.group(ctx, units)
		if err != nil {
			return err
		}
		p.letGo(units[:len(units)-len(rest)])
		units = rest
	}
	return nil
}

// group applies one group and returns the units that are left.
func (p *Projector) group(ctx context.Context, units []*unit) (rest []*unit, err error) {
	start := time.Now()
	n, done, err := p.applyTogether(ctx, units)
	switch {
	case err == nil:
		rest = units[len(done):]
		if last := done[len(done)-1]; last.more && !p.yields(last) {
			rest = units[len(done)-1:]
		}
	case IsInfrastructure(err) && !errors.Is(err, lease.ErrLost):
		return nil, err
	default:
		if !errors.Is(err, lease.ErrLost) {
			p.cfg.Logger.WarnContext(ctx, "group failed, isolating the cause", "campaigns", len(units), "error", err)
		}
		if n, err = p.isolate(ctx, units, p.cfg.GroupEvents); err != nil {
			return nil, err
		}
	}
	p.applied.Add(int64(n))
	p.metrics.applied.Add(float64(n))
	p.metrics.groups.Inc()
	p.metrics.apply.Observe(time.Since(start).Seconds())
	p.observe(len(units)-len(rest), n)
	return rest, nil
}

// applyTogether applies as many of the units as a group holds, in one transaction.
func (p *Projector) applyTogether(ctx context.Context, units []*unit) (n int, done []*unit, err error) {
	t, err := p.begin(ctx, units, p.cfg.GroupEvents)
	if err != nil {
		return 0, nil, err
	}
	defer t.abort(ctx)
	p.cfg.OnStep(StepRead)
	if err := t.applyAll(ctx); err != nil {
		return 0, nil, err
	}
	p.cfg.OnStep(StepApplied)
	for _, u := range t.units {
		n += len(u.events)
		u.groups++
	}
	if err := t.finish(ctx, p.yields); err != nil {
		return 0, nil, err
	}
	p.cfg.OnStep(StepCommitted)
	return n, t.units, nil
}

// yields says whether a unit that has more to do makes way for others: one that was merely cut off at the end of a group goes on, once.
func (p *Projector) yields(u *unit) bool { return u.groups > 1 }
