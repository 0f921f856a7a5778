package across

import (
	"context"
	"errors"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
)

const (
	// deadly is how many processes must have died while they held a place, without progress, before its
	// events are tried alone.
	deadly = 2

	// deadlyMarked is how many processes in a row must have died while they tried one event alone,
	// before it is given up. Any other event, and any progress, begins the count anew: a process that is
	// killed from outside is rarely at the same event three times.
	deadlyMarked = 3
)

// trial is what a place knows of the deaths of its earlier holders.
type trial struct {
	marks   int   // events still to be tried alone
	suspect int64 // position of the event that was tried when the last holder died; none is marked before it
	guilty  int64 // position of the event that is given up
	verdict error
}

// suspects takes over what the claim of the place found.
func (p *place) suspects(ctx context.Context, c *ledger.Claimed) {
	if c.Marked == 0 && c.Deaths < deadly {
		return
	}
	p.marks, p.suspect = p.Cfg.GroupEvents, c.Marked
	if c.Marked > 0 && c.Deaths >= deadlyMarked {
		p.suspect, p.guilty = 0, c.Marked
		p.verdict = &failure.CrashError{Crashes: deadly + c.Deaths, Alone: c.Deaths}
	}
	p.Cfg.Logger.WarnContext(ctx, "processes died while they held the place, applying its events one by one",
		"projection", p.k.Name, "partition", p.part, "crashes", c.Deaths, "marked", c.Marked)
}

// stride applies a stride, beside others of the process unless its event must be tried alone.
func (p *place) stride(ctx context.Context, s *apply.Stride) (held map[string]int64, err error) {
	s.Reacting = p.reacting
	try := func() (err error) {
		held, err = p.tryStride(ctx, s)
		return err
	}
	if p.marks == 0 || !s.OfOneEvent() || s.Events[0].Fault != nil ||
		p.suspect != 0 && p.suspect != s.Events[0].Event.Position {
		err = p.Applier.Together(try)
		return held, err
	}
	at := s.Events[0].Event.Position
	err = p.Applier.Alone(func() error {
		if err := p.db.Mark(ctx, p.key, p.generation, p.instance, at); err != nil {
			return err
		}
		p.marks, p.suspect = p.marks-1, 0
		err := try()
		if err == nil || errors.Is(err, ledger.ErrLost) {
			return err
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.ReleaseTimeout)
		defer cancel()
		return errors.Join(err, p.db.Mark(bounded, p.key, p.generation, p.instance, -at))
	})
	return held, err
}

// tryStride applies a stride. An event that alone exceeds its time limit has failed, for all keys of the stride:
// each of them is tried alone later.
func (p *place) tryStride(ctx context.Context, s *apply.Stride) (held map[string]int64, err error) {
	held, err = p.Applier.Stride(ctx, s)
	if late, ok := errors.AsType[*failure.DeadlineError](err); ok && s.OfOneEvent() {
		for i := range s.Events {
			s.Events[i].Fault = late
		}
		return p.Applier.Stride(ctx, s)
	}
	return held, err
}
