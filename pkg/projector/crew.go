package projector

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/tidemark-go/tidemark/internal/pulse"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/registry"
)

// crew is the goroutines that work on assignments.
type crew struct {
	*registry.Base
	holder   *holder
	applier  *applier
	breaker  *breaker
	free     chan struct{} // one of them has finished an assignment
	working  atomic.Int64  // assignments not finished
	finishes atomic.Int64  // assignments finished
	inTheWay atomic.Bool   // the last claim passed campaigns that are held
}

// worker applies assignments until there are no more.
func (c *crew) worker(ctx context.Context, stopping <-chan struct{}, work <-chan assignment) {
	loop := pulse.Of(ctx)
	for a := range work {
		loop.Within(c.Promises.Step)
		err := c.process(ctx, stopping, a)
		loop.Rest()
		if err == nil || ctx.Err() != nil {
			continue
		}
		if c.breaker.failed(ctx, err) {
			// It may concern this group alone, as a lock does that somebody holds: the others go on, and this one
			// is not redone at once.
			wait := c.Backoff(0)
			c.Cfg.Logger.WarnContext(ctx, "group not applied", "error", err, "wait", wait)
			registry.Pause(ctx, wait)
		}
	}
}

// process applies an assignment, each unit once or, if it was cut off by others' events, once more.
// What it does not reach it gives back.
func (c *crew) process(ctx context.Context, stopping <-chan struct{}, a assignment) error {
	units, all := a.units, a.units
	ctx, drop := context.WithCancel(ctx)
	defer drop()
	c.holder.work(units, drop)
	defer func() {
		a.drop(ctx)
		if len(units) > 0 {
			c.holder.giveBack(ctx, units)
		}
		left := len(units) > 0 || slices.ContainsFunc(all, func(u *unit) bool { return u.more })
		c.holder.letGo(all)
		last := c.working.Add(-1) == 0
		c.finishes.Add(1)
		if left || c.inTheWay.Load() && !c.Draining || last && c.Draining {
			registry.Signal(c.free)
		}
	}()
	c.Cfg.OnStep(StepClaimed)
	for len(units) > 0 {
		select {
		case <-stopping:
			return nil
		default:
		}
		if c.breaker.open() {
			return nil
		}
		n := unsuspected(units)
		if n == 0 {
			n = ofOneCampaign(units)
			if err := c.applier.applySuspect(ctx, units[:n]); err != nil {
				return err
			}
			c.holder.letGo(units[:n])
			units = units[n:]
			continue
		}
		var rest []*unit
		if err := c.applier.together(func() (err error) { rest, err = c.applier.group(ctx, units[:n], a.take()); return err }); err != nil {
			return err
		}
		c.holder.letGo(without(units[:n], rest))
		units = append(rest[:len(rest):len(rest)], units[n:]...)
	}
	return nil
}
