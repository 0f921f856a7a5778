package apply

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tidemark-go/tidemark/internal/loops"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// ShadowCampaigns limits how many campaigns a shadow claims at once: its transaction keeps them
// from workers while it is open, for half a lease's life at most.
const ShadowCampaigns = 16

// shadow goes round the queue and does what a worker would do, in transactions that it rolls back,
// the claim included. It keeps no leases, counts no attempts and changes no rows, but sequences
// that projections draw from move. It counts outcomes in metrics, and logs them once a round.
type shadow struct {
	p       *Applier
	applied map[string]int    // events, by projection, in this round
	failed  map[[2]string]int // by projection and class, in this round
	cut     int               // campaigns not tried to the end, in this round
}

// NewShadow returns a shadow before its first round.
func NewShadow(p *Applier) *shadow { return &shadow{p: p} }

// Run goes round until ctx ends.
func (s *shadow) Run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		wait := s.p.Cfg.PollInterval
		if _, err := s.Round(ctx); err == nil {
			failures = -1
		} else if wait = s.p.Backoff(failures); ctx.Err() == nil {
			s.p.Cfg.Logger.WarnContext(ctx, "shadow group not tried", "error", err, "wait", wait)
		}
		loops.Sleep(ctx, wait)
	}
}

// Round goes round the queue, then through the due retries. It returns how many events would have been applied.
func (s *shadow) Round(ctx context.Context) (n int, err error) {
	s.applied, s.failed, s.cut = map[string]int{}, map[[2]string]int{}, 0
	cursor, again := "", true
	for again {
		err := s.try(ctx, func(ctx context.Context, t *Transaction) (units []*Unit, more bool, err error) {
			claimed, err := s.p.Keeper.Claim(ctx, t.Conn, cursor, ShadowCampaigns, 0)
			for _, l := range claimed.Leases {
				if l.CampaignID > cursor { // do not start over
					units = append(units, Live(l))
				}
			}
			// Nothing changes, so claims never run out: the round ends where it would start over.
			again, cursor = claimed.Cursor > cursor, claimed.Cursor
			return units, false, err
		})
		if slow, ok := errors.AsType[*SlowReadError](err); ok {
			s.passOver(ctx, slow)
			cursor, again = slow.CampaignID, true
		} else if err != nil {
			return 0, err
		}
	}
	// A transaction does not find again what it has claimed, so the next claim goes on where this one ends.
	err = s.try(ctx, s.claimBehind)
	if slow, ok := errors.AsType[*SlowReadError](err); ok {
		s.passOver(ctx, slow)
	} else if err != nil {
		return 0, err
	}
	for _, applied := range s.applied {
		n += applied
	}
	s.report(ctx)
	return n, nil
}

// passOver goes on without a campaign: its transaction must not keep it from workers for as long as the read takes.
func (s *shadow) passOver(ctx context.Context, slow *SlowReadError) {
	s.cut++
	s.p.Cfg.Logger.WarnContext(ctx, "shadow: a read of the journal took too long, the campaign is not tried", "campaign",
		slow.CampaignID, "after", slow.After, "timeout", slow.Limit)
}

// claimBehind claims campaigns whose retry is due.
func (s *shadow) claimBehind(ctx context.Context, t *Transaction) (units []*Unit, more bool, err error) {
	claimed, err := s.p.Keeper.ClaimBehind(ctx, t.Conn, s.p.Behind(), ShadowCampaigns)
	if err != nil || len(claimed.Leases) == 0 {
		return nil, false, err
	}
	units, err = s.p.Due(ctx, t.Conn, claimed.Leases, s.p.Behind())
	return units, true, err
}

// try opens a transaction, has campaigns claimed, applies the events of each to the end, and rolls
// back. It stops after half a lease's life.
func (s *shadow) try(
	ctx context.Context, claim func(context.Context, *Transaction) (units []*Unit, more bool, err error),
) error {
	p := s.p
	enough := time.Now().Add(p.Cfg.LeaseTTL / 2)
	ctx, cancel := context.WithTimeout(ctx, p.Cfg.LeaseTTL)
	defer cancel()
	conn, err := p.Cfg.Pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire a connection: %w", err)
	}
	t := p.On(conn, nil, nil)
	defer t.Abort(ctx)
	t.Queue(QueryBegin)
	t.QueueSettings()
	t.Queue(queryShadowPatience)
	t.trying, t.fenced, t.Checks = true, true, true
	if err := t.Flush(ctx); err != nil {
		return err
	}
	for more := true; more; {
		var units []*Unit
		if units, more, err = claim(ctx, t); err != nil {
			return err
		}
		for _, u := range units {
			for again := true; again; {
				if time.Now().After(enough) {
					s.cut++
					break
				}
				if again, err = s.tryUnit(ctx, t, u); err != nil {
					return err
				}
			}
		}
		more = more && len(units) > 0 && time.Now().Before(enough)
	}
	return nil
}

// tryUnit applies as much of a unit as fits in a group, on top of the groups before, and counts the
// outcome. It reports whether there is more to do.
func (s *shadow) tryUnit(ctx context.Context, t *Transaction, u *Unit) (again bool, err error) {
	t.Units, t.Events, t.failures = []*Unit{u}, t.Events[:0], nil
	if err := t.Read(ctx, s.p.Cfg.GroupEvents); err != nil {
		return false, err
	}
	if err := t.applyInParts(ctx); err != nil {
		if late, ok := errors.AsType[*failure.DeadlineError](err); ok {
			s.fail(late.Projection, string(late.FailureClass()))
		}
		return false, err
	}
	again = u.More
	for _, k := range t.view.Projections {
		if !t.applies(k, u) {
			continue
		}
		end := int64(math.MaxInt64) // the event that stops the projection
		for _, f := range t.failures {
			if f.Projection != k.Name {
				continue
			}
			s.fail(f.Projection, f.Class)
			if f.policy.Action != projection.ActionSkip {
				end = f.Seq
			}
		}
		n := 0
		for i := range u.Events {
			if t.Wants(k, &u.Events[i]) && u.Events[i].Seq < end {
				n++
			}
		}
		s.applied[k.Name] += n
		s.p.Metrics.Shadow.Applied.WithLabelValues(k.Name).Add(float64(n))
		switch {
		case end == math.MaxInt64:
		case u.Standing == nil: // from here on it would be behind
			t.stop(&failed.Standing{CampaignID: u.Lease.CampaignID, Projection: k.Name})
		default:
			again = false
		}
	}
	u.settle()
	return again, nil
}

func (s *shadow) fail(projection, class string) {
	s.failed[[2]string{projection, class}]++
	s.p.Metrics.Shadow.Failed.WithLabelValues(projection, class).Inc()
}

// report logs the round.
func (s *shadow) report(ctx context.Context) {
	for projection, n := range s.applied {
		if n > 0 {
			s.p.Cfg.Logger.InfoContext(ctx, "shadow: would have been applied", "projection", projection, "events", n)
		}
	}
	for at, n := range s.failed {
		s.p.Cfg.Logger.WarnContext(ctx, "shadow: would have failed", "projection", at[0], "class", at[1], "events", n)
	}
	if s.cut > 0 {
		s.p.Cfg.Logger.WarnContext(ctx, "shadow: stopped early, the group takes longer than half the lease time",
			"campaigns", s.cut)
	}
}
