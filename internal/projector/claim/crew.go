package claim

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
)

// Crew is the workers of this process: goroutines that apply assignments.
type Crew struct {
	*registry.Base
	Holder   *apply.Holder
	Applier  *apply.Applier
	Free     chan struct{} // an assignment has finished
	working  atomic.Int64  // assignments not finished
	finishes atomic.Int64  // assignments finished
	inTheWay atomic.Bool   // the last claim passed over campaigns that are held

	mu   sync.Mutex
	left []string // campaigns that assignments left with work since the last claim
}

// takeLeft returns the campaigns left with work since the last call.
func (c *Crew) takeLeft() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left, c.left = c.left, nil
	return left
}

// Worker applies assignments until work is closed.
func (c *Crew) Worker(ctx context.Context, stopping <-chan struct{}, work <-chan apply.Assignment) {
	loop := loops.Of(ctx)
	for a := range work {
		loop.Within(c.Promises.Step)
		err := c.Process(ctx, stopping, a)
		loop.Rest()
		if err == nil || ctx.Err() != nil {
			continue
		}
		if c.Applier.Breaker.Failed(ctx, err) {
			// The failure may concern this group alone, as a held lock does: the other workers go
			// on, and this group is not redone at once.
			wait := c.Backoff(0)
			c.Cfg.Logger.WarnContext(ctx, "group not applied", "error", err, "wait", wait)
			loops.Sleep(ctx, wait)
		}
	}
}

// Process applies an assignment: each unit once, or twice if the events of others cut it off. It
// gives back what it does not reach.
func (c *Crew) Process(ctx context.Context, stopping <-chan struct{}, a apply.Assignment) error {
	units, all := a.Units, a.Units
	ctx, drop := context.WithCancel(ctx)
	defer drop()
	c.Holder.Work(units, drop)
	defer func() {
		a.Drop(ctx)
		if len(units) > 0 {
			c.Holder.GiveBack(ctx, units)
		}
		var left []string
		for _, u := range all {
			if u.More || slices.Contains(units, u) {
				left = append(left, u.Lease.CampaignID)
			}
		}
		c.mu.Lock()
		c.left = append(c.left, left...)
		c.mu.Unlock()
		c.Holder.LetGo(all)
		last := c.working.Add(-1) == 0
		c.finishes.Add(1)
		if len(left) > 0 || c.inTheWay.Load() && !c.Draining || last && c.Draining {
			loops.Signal(c.Free)
		}
	}()
	c.Cfg.OnStep(kind.StepClaimed)
	for len(units) > 0 {
		select {
		case <-stopping:
			return nil
		default:
		}
		if c.Applier.Breaker.Open() {
			return nil
		}
		n := apply.Unsuspected(units)
		if n == 0 {
			n = apply.OfOneCampaign(units)
			if err := c.Applier.ApplySuspect(ctx, units[:n]); err != nil {
				return err
			}
			c.Holder.LetGo(units[:n])
			units = units[n:]
			continue
		}
		var rest []*apply.Unit
		if err := c.Applier.Together(func() (err error) {
			rest, err = c.Applier.Group(ctx, units[:n], a.Take())
			return err
		}); err != nil {
			return err
		}
		c.Holder.LetGo(apply.Without(units[:n], rest))
		units = append(rest[:len(rest):len(rest)], units[n:]...)
	}
	return nil
}
