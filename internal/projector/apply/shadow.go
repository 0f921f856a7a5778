package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// ShadowCampaigns bounds how many campaigns a shadow claims at once: its transaction keeps them
// from workers while it is open, which is half a lease's life at most.
const ShadowCampaigns = 16

// shadow walks round the queue and does what a worker would do, in transactions that it rolls back,
// the claim included. It keeps no leases, counts no attempt and changes no row; what would have happened
// is counted in metrics and logged once a round. A sequence that a projection draws from moves all the same.
type shadow struct {
	p       *Applier
	cursor  string
	applied map[string]int    // events, by projection, in this round
	failed  map[[2]string]int // by projection and class, in this round
	cut     int               // campaigns that were not tried to their end, in this round
}

// NewShadow returns a shadow that begins a round.
func NewShadow(p *Applier) *shadow {
	return &shadow{p: p, applied: map[string]int{}, failed: map[[2]string]int{}}
}

// Run goes round until ctx ends.
func (s *shadow) Run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		again, err := s.Step(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			wait := s.p.Backoff(failures)
			failures++
			s.p.Cfg.Logger.WarnContext(ctx, "shadow group not tried", "error", err, "wait", wait)
			registry.Sleep(ctx, wait)
		case !again:
			failures = 0
			s.report(ctx)
			registry.Sleep(ctx, s.p.Cfg.PollInterval)
		default:
			failures = 0
		}
	}
}

// Round goes round the queue once and answers how many events would have been applied.
func (s *shadow) Round(ctx context.Context) (n int, err error) {
	for again := true; again; {
		if again, err = s.Step(ctx); err != nil {
			return 0, err
		}
	}
	for _, applied := range s.applied {
		n += applied
	}
	s.report(ctx)
	return n, nil
}

// Step tries the campaigns that a claim finds, and says whether the round goes on. A round ends
// with the pairs whose retry is due.
func (s *shadow) Step(ctx context.Context) (again bool, err error) {
	cursor := s.cursor
	err = s.try(ctx, func(t *Transaction) (units []*Unit, more bool, err error) {
		claimed, err := s.p.Keeper.Claim(ctx, t.Conn, cursor, ShadowCampaigns, 0)
		for _, l := range claimed.Leases {
			if l.CampaignID > cursor { // not again from the beginning
				units = append(units, Live(l))
			}
		}
		// Nothing changes, so the queue has no end for a claim: the round is over where it would begin again.
		again = claimed.Cursor > cursor
		s.cursor = ""
		if again {
			s.cursor = claimed.Cursor
		}
		return units, false, err
	})
	if err != nil || again {
		return again, err
	}
	// What one transaction has claimed it does not find again, so the next claim goes on where this one ends.
	return false, s.try(ctx, func(t *Transaction) (units []*Unit, more bool, err error) {
		claimed, err := s.p.Keeper.ClaimBehind(ctx, t.Conn, s.p.Behind(), ShadowCampaigns)
		if err != nil || len(claimed.Leases) == 0 {
			return nil, false, err
		}
		ids, byID := make([]string, len(claimed.Leases)), map[string]lease.Lease{}
		for i, l := range claimed.Leases {
			ids[i], byID[l.CampaignID] = l.CampaignID, l
		}
		pairs, err := failed.Due(ctx, t.Conn, s.p.Cfg.ConsumerGroup, ids, s.p.Behind())
		for _, d := range pairs {
			units = append(units, CatchUp(byID[d.CampaignID], d))
		}
		return units, true, err
	})
}

// try opens a transaction, has campaigns claimed, applies their events group by group to the end,
// each on what those before it have left, and rolls back. After half a lease's life it leaves it at
// that.
func (s *shadow) try(ctx context.Context, claim func(*Transaction) (units []*Unit, more bool, err error)) error {
	p := s.p
	enough := time.Now().Add(p.Cfg.LeaseTTL / 2)
	bounded, cancel := context.WithTimeout(ctx, p.Cfg.LeaseTTL)
	defer cancel()
	conn, err := p.Cfg.Pool.Acquire(bounded)
	if err != nil {
		return fmt.Errorf("acquire a connection: %w", err)
	}
	t := p.Within(conn.Conn(), nil, p.Cfg.GroupEvents)
	t.Pool, t.Timeout, t.InForce, t.Disconnect = conn, p.Longest, p.Longest, Disconnect(conn)
	defer t.Abort(ctx)
	t.Queue(QueryBegin)
	t.QueueSettings()
	t.Queue(queryShadowPatience)
	t.trying = true
	if err := t.Flush(bounded); err != nil {
		return err
	}
	for more := true; more; {
		var units []*Unit
		if units, more, err = claim(t); err != nil {
			return err
		}
		more = more && len(units) > 0
		if over, err := s.tryAll(bounded, t, units, enough); err != nil || over {
			return err
		}
	}
	return nil
}

// tryAll tries what has been claimed, and says whether there is no more time.
func (s *shadow) tryAll(ctx context.Context, t *Transaction, units []*Unit, enough time.Time) (over bool, err error) {
	for len(units) > 0 {
		if over {
			s.cut += len(units)
			break
		}
		if units, err = s.tryGroup(ctx, t, units); err != nil {
			return false, err
		}
		over = time.Now().After(enough)
	}
	return over, nil
}

// tryGroup applies as much of the units as a group holds, and answers those that have more to do.
func (s *shadow) tryGroup(ctx context.Context, t *Transaction, units []*Unit) (rest []*Unit, err error) {
	t.Units, t.Events = units, t.Events[:0]
	if err := t.Read(ctx, s.p.Cfg.GroupEvents); err != nil {
		return nil, err
	}
	for _, u := range t.Units {
		stopped := false
		for _, k := range t.view.Projections {
			if !t.applies(k, u) {
				continue
			}
			end, err := s.tryApart(ctx, t, k, u)
			if err != nil {
				return nil, err
			}
			if end && u.Pair == nil { // from here on it would be behind
				t.stop(u.Lease.CampaignID, k)
			}
			stopped = end && u.Pair != nil
		}
		u.settle()
		if u.More && !stopped {
			rest = append(rest, u)
		}
	}
	return append(rest, units[len(t.Units):]...), nil
}

// tryApart applies a unit's events to one projection and counts what became of them. It says
// whether one of them stops it.
func (s *shadow) tryApart(
	ctx context.Context, t *Transaction, k *registry.Projection, u *Unit,
) (stopped bool, err error) {
	before := len(t.failures)
	err = t.applyUnit(ctx, k, u)
	var late *failure.DeadlineError
	if errors.As(err, &late) {
		s.fail(k.Name, string(late.FailureClass()), 1)
	}
	if err != nil {
		return false, err
	}
	end := int64(0) // the event that stops it
	for _, f := range t.failures[before:] {
		s.fail(f.Projection, f.Class, 1)
		if f.policy.Action != kind.ActionSkip {
			end = f.Seq
		}
	}
	applied := 0
	for i := range u.Events {
		if t.Wants(k, &u.Events[i]) && (end == 0 || u.Events[i].Seq < end) {
			applied++
		}
	}
	s.applied[k.Name] += applied
	s.p.Metrics.Shadow.Applied.WithLabelValues(k.Name).Add(float64(applied))
	return end > 0, nil
}

func (s *shadow) fail(projection, class string, n int) {
	s.failed[[2]string{projection, class}] += n
	s.p.Metrics.Shadow.Failed.WithLabelValues(projection, class).Add(float64(n))
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
		s.p.Cfg.Logger.WarnContext(ctx, "shadow: not tried to the end, that takes longer than half a lease's life",
			"campaigns", s.cut)
	}
	clear(s.applied)
	clear(s.failed)
	s.cut = 0
}
