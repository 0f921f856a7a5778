package projector

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/pkg/lease"
)

// worker applies assignments until there are no more.
func (p *Projector) worker(ctx context.Context, stopping <-chan struct{}, work <-chan assignment) {
	loop := pulse.Of(ctx)
	for a := range work {
		loop.Within(p.promises.step)
		err := p.process(ctx, stopping, a)
		loop.Rest()
		if err == nil || ctx.Err() != nil {
			continue
		}
		if p.breaker.failed(ctx, err) {
			// It may concern this group alone, as a lock does that somebody holds: the others go on, and this one is not redone at once.
			wait := p.backoff(0)
			p.cfg.Logger.WarnContext(ctx, "group not applied", "error", err, "wait", wait)
			pause(ctx, wait)
		}
	}
}

// process applies an assignment, each unit once or, if it was cut off by others' events, once more. What it does not reach it gives back.
func (p *Projector) process(ctx context.Context, stopping <-chan struct{}, a assignment) error {
	units, all := a.units, a.units
	ctx, drop := context.WithCancel(ctx)
	defer drop()
	p.work(units, drop)
	defer func() {
		a.drop(ctx)
		if len(units) > 0 {
			p.giveBack(ctx, units)
		}
		left := len(units) > 0 || slices.ContainsFunc(all, func(u *unit) bool { return u.more })
		p.letGo(all)
		last := p.working.Add(-1) == 0
		p.finishes.Add(1)
		if left || p.inTheWay.Load() && !p.draining || last && p.draining {
			signal(p.free)
		}
	}()
	p.cfg.OnStep(StepClaimed)
	for len(units) > 0 {
		select {
		case <-stopping:
			return nil
		default:
		}
		if p.breaker.open() {
			return nil
		}
		n := unsuspected(units)
		if n == 0 {
			n = ofOneCampaign(units)
			if err := p.applySuspect(ctx, units[:n]); err != nil {
				return err
			}
			p.letGo(units[:n])
			units = units[n:]
			continue
		}
		var rest []*unit
		if err := p.together(func() (err error) { rest, err = p.group(ctx, units[:n], a.take()); return err }); err != nil {
			return err
		}
		p.letGo(without(units[:n], rest))
		units = append(rest[:len(rest):len(rest)], units[n:]...)
	}
	return nil
}

// without answers the units that are not among the others.
func without(units, others []*unit) []*unit {
	return slices.DeleteFunc(slices.Clone(units), func(u *unit) bool { return slices.Contains(others, u) })
}

// group applies one group, in a transaction that has read it if there is one, and returns the units that are left.
func (p *Projector) group(ctx context.Context, units []*unit, opened *transaction) (rest []*unit, err error) {
	start, n := time.Now(), 0
	defer func() { p.share.spend(units, time.Since(start)) }()
	ctx, span := p.tracer.Start(ctx)
	defer func() { span.End(n, err) }()
	a := assignment{opened: opened}
	apply, careful := func(ctx context.Context, units []*unit) (int, []*unit, error) {
		return p.applyTogether(ctx, units, a.take())
	}, p.careful(units)
	if careful {
		a.drop(ctx)
		apply = p.applyCarefully
	}
	var done []*unit
	units, n, done, err = p.applyHeld(ctx, units, apply)
	if err != nil && !careful && (p.isolable(ctx, err) || ownLockTimeout(err)) { // carefully it is known whose statement waits
		p.cfg.Logger.WarnContext(ctx, "group failed, isolating the cause", "campaigns", len(units), "error", err)
		p.care.Store(careAfter)
		units, n, done, err = p.applyHeld(ctx, units, p.applyCarefully)
	}
	switch {
	case len(units) == 0:
		return nil, nil
	case err == nil:
		rest = units[len(done):]
		if last := done[len(done)-1]; last.more && !p.yields(last) {
			rest = units[len(done)-1:]
		}
	case p.infrastructure(ctx, err) && !errors.Is(err, lease.ErrLost):
		p.limit.shrink()
		return nil, err
	default:
		if !errors.Is(err, lease.ErrLost) {
			p.cfg.Logger.WarnContext(ctx, "group failed, applying its campaigns one by one", "campaigns", len(units), "error", err)
		}
		size := p.limit.events()
		var late *DeadlineError
		if errors.As(err, &late) {
			p.limit.shrink()
			if size = p.limit.events(); late.lost {
				size = 1 // whoever did not return would hardly do so for half as many
			}
		}
		if n, err = p.isolate(ctx, units, size); err != nil {
			p.limit.shrink()
			return nil, err
		}
	}
	p.breaker.succeeded(ctx)
	p.limit.grow()
	p.applied.Add(int64(n))
	p.metrics.group(n)
	p.metrics.apply.Observe(time.Since(start).Seconds())
	p.observe(len(units)-len(rest), n)
	return rest, nil
}

// applier applies as many of the units as a group holds, and answers how many events and which units those were.
type applier func(ctx context.Context, units []*unit) (n int, done []*unit, err error)

// isolable says whether a group's failure is some event's that can be found while others go on. A deadline's is not: it takes too long.
func (p *Projector) isolable(ctx context.Context, err error) bool {
	var late *DeadlineError
	return !errors.Is(err, lease.ErrLost) && !errors.As(err, &late) && !p.infrastructure(ctx, err)
}

// applyHeld is apply, again without the units whose leases were lost, or are being written by somebody who takes long, if that is why it failed: the rest has nothing to do with it. It answers the units that are still held.
func (p *Projector) applyHeld(ctx context.Context, units []*unit, apply applier) (held []*unit, n int, done []*unit, err error) {
	for len(units) > 0 {
		n, done, err = apply(ctx, units)
		if !errors.Is(err, lease.ErrLost) && !ownLockTimeout(err) {
			return units, n, done, err
		}
		leases := make([]lease.Lease, len(units))
		for i, u := range units {
			leases[i] = u.lease
		}
		ids, lookErr := p.keeper.StillHeld(ctx, p.cfg.Pool, leases)
		if lookErr != nil {
			return units, 0, nil, lookErr
		}
		held := slices.DeleteFunc(slices.Clone(units), func(u *unit) bool { return !slices.Contains(ids, u.lease.CampaignID) })
		if len(held) == len(units) {
			return units, 0, nil, err // nobody knows whose it was: one by one
		}
		for _, u := range without(units, held) {
			p.metrics.lost.WithLabelValues(lostTakenOver).Inc()
			p.cfg.Logger.WarnContext(ctx, "lease lost, work dropped", "campaign", u.lease.CampaignID, "generation", u.lease.Generation)
		}
		units = held
	}
	return nil, 0, nil, nil
}

// applyTogether applies as many of the units as a group holds, in one transaction: t, if that has read them already.
//
// A COMMIT without an answer may have happened. Its error is the infrastructure's, so nothing is redone from what this process remembers: [Projector.process] drops the
// units and gives their leases back, and whoever claims the campaigns next, perhaps this worker, reads the checkpoint (and the places of pairs) that the
// database holds. Should the claim overtake the COMMIT, the fence lets only one of them through: both write the lease row.
func (p *Projector) applyTogether(ctx context.Context, units []*unit, t *transaction) (n int, done []*unit, err error) {
	if t == nil {
		if t, err = p.open(ctx, units, p.limit.events(), p.calls()); err != nil {
			return 0, nil, err
		}
	}
	if t.separable() {
		return p.carefully(ctx, t, false)
	}
	defer t.abort(ctx)
	t.link(ctx)
	p.cfg.OnStep(StepRead)
	if err := t.applyAll(ctx); err != nil {
		return 0, nil, err
	}
	p.cfg.OnStep(StepApplied)
	for _, u := range t.units {
		n += u.count()
		u.groups++
	}
	if err := t.finish(ctx, p.yields); err != nil {
		for _, u := range t.units {
			u.groups--
		}
		p.uninstall(ctx, err)
		return 0, nil, err
	}
	p.cfg.OnStep(StepCommitted)
	return n, t.units, nil
}

// yields says whether a unit that has more to do makes way for others: one that was merely cut off at the end of a group goes on, once. A pair that has got past the event at which it had failed
// is claimed anew, as one that is behind.
func (p *Projector) yields(u *unit) bool { return u.groups > 1 || u.probes() }
