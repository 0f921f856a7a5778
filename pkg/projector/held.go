package projector

import (
	"context"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/lease"
)

// beatInterval is how often a worker records that it lives.
const beatInterval = time.Second

// holding is a lease in this worker's hands.
type holding struct {
	lease   lease.Lease
	renewed time.Time // from before the last request that prolonged it
	drop    func()    // ends the work under it; nil: none yet
	dropped bool
}

// hold takes charge of leases asked for at a time, and returns those to work on. That leaves out a campaign that is worked on under the same generation: claims
// do not wait for the disk, so a crash of the server can forget one, and the fence could not tell its work from that of the claim that follows.
func (p *Projector) hold(leases []lease.Lease, asked time.Time) []lease.Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := make([]lease.Lease, 0, len(leases))
	for _, l := range leases {
		h := p.held[l.CampaignID]
		if h == nil || h.lease.Generation < l.Generation {
			// What goes on under a lease that has run out may hang, and this one may wait for it. One that has not was given back by the group just committed, and the
			// worker goes on with other campaigns; or was taken, and the fence ends what goes on.
			if h != nil {
				p.dropExpired(h)
			}
			p.held[l.CampaignID] = &holding{lease: l, renewed: asked}
			fresh = append(fresh, l)
		}
	}
	p.metrics.held.Set(float64(len(p.held)))
	return fresh
}

// work names the function that ends the work under the units' leases.
func (p *Projector) work(units []*unit, drop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range units {
		if h := p.held[u.lease.CampaignID]; h != nil && h.lease.Generation == u.lease.Generation {
			h.drop = drop
		}
	}
}

// renewed notes what a request for renewal at a time has prolonged, and ends the work under leases that have run out: it may hang on a connection that
// fell silent, and others may have taken over.
func (p *Projector) renewed(kept []lease.Lease, asked time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range kept {
		if h := p.held[l.CampaignID]; h != nil && h.lease.Generation == l.Generation {
			h.renewed = asked
		}
	}
	for _, h := range p.held {
		p.dropExpired(h)
	}
}

// dropExpired ends the work under a lease that has run out.
func (p *Projector) dropExpired(h *holding) {
	if h.drop == nil || h.dropped || time.Since(h.renewed) <= p.cfg.LeaseTTL {
		return
	}
	h.drop()
	h.dropped = true
	p.metrics.lost.WithLabelValues(lostExpired).Inc()
}

// letGo forgets units whose leases are given back, or lost.
func (p *Projector) letGo(units []*unit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range units {
		p.remove(u.lease)
	}
	p.metrics.held.Set(float64(len(p.held)))
}

// giveBack releases the leases of units that were not applied. Should that fail they expire.
func (p *Projector) giveBack(ctx context.Context, units []*unit) {
	leases := make([]lease.Lease, 0, len(units))
	for i, u := range units {
		if i == 0 || u.lease.CampaignID != units[i-1].lease.CampaignID {
			leases = append(leases, u.lease)
		}
	}
	p.giveBackLeases(ctx, leases)
}

func (p *Projector) giveBackLeases(ctx context.Context, leases []lease.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := p.keeper.Release(ctx, p.cfg.Pool, leases); err != nil {
		p.cfg.Logger.WarnContext(ctx, "leases not given back, they will expire", "campaigns", len(leases), "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range leases {
		p.remove(l)
	}
	p.metrics.held.Set(float64(len(p.held)))
}

// remove forgets a lease, unless it has been acquired again since. The caller holds the lock.
func (p *Projector) remove(l lease.Lease) {
	if h := p.held[l.CampaignID]; h != nil && h.lease.Generation == l.Generation {
		delete(p.held, l.CampaignID)
	}
}

func (p *Projector) holding() []lease.Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	leases := make([]lease.Lease, 0, len(p.held))
	for _, h := range p.held {
		leases = append(leases, h.lease)
	}
	return leases
}

// keepLeases renews what is held three times in the life of a lease, and records that the worker lives.
func (p *Projector) keepLeases(ctx context.Context) {
	renew := time.NewTicker(p.cfg.LeaseTTL / 3)
	defer renew.Stop()
	beat := time.NewTicker(min(beatInterval, p.cfg.LeaseTTL/4)) // note_crashes tells the dead by it
	defer beat.Stop()
	loop := pulse.Of(ctx)
	defer loop.Rest()
	for {
		loop.Within(p.promises.kept)
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			p.beat(ctx)
		case <-renew.C:
			leases := p.holding()
			if len(leases) == 0 {
				continue
			}
			bounded, cancel := context.WithTimeout(ctx, p.cfg.LeaseTTL/3)
			asked := time.Now()
			// One that is lost is noticed by the fence at the end of its group.
			kept, err := p.keeper.Renew(bounded, p.cfg.Pool, leases)
			if err != nil && ctx.Err() == nil {
				p.cfg.Logger.WarnContext(ctx, "leases not renewed", "campaigns", len(leases), "error", err)
			}
			cancel()
			p.renewed(kept, asked)
		}
	}
}

// beat records that the worker lives. It is not cut short when the worker stops: the server might still do what nobody waits for any more, after the
// record has been removed. Renewals wait for it.
func (p *Projector) beat(ctx context.Context) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(p.cfg.LeaseTTL/3, releaseTimeout))
	defer cancel()
	drained, err := p.keeper.Beat(bounded, p.cfg.Pool, p.host, os.Getpid(), len(p.holding()), p.applied.Load())
	if err != nil {
		if ctx.Err() == nil {
			p.cfg.Logger.WarnContext(ctx, "worker not recorded", "error", err)
		}
		return
	}
	if p.drained.Swap(drained) != drained {
		p.cfg.Logger.InfoContext(ctx, "an operator has drained the worker, or has it go on", "drained", drained)
	}
}

func (p *Projector) forget(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := p.keeper.Forget(ctx, p.cfg.Pool); err != nil {
		p.cfg.Logger.WarnContext(ctx, "worker's record stays for a day", "error", err)
	}
}

// duePairs returns the catch-up units of campaigns just leased, those of one campaign side by side.
func (p *Projector) duePairs(ctx context.Context, leases []lease.Lease, projections []string) ([]*unit, error) {
	byID := make(map[string]lease.Lease, len(leases))
	ids := make([]string, len(leases))
	for i, l := range leases {
		ids[i], byID[l.CampaignID] = l.CampaignID, l
	}
	pairs, err := deferred.Due(ctx, p.cfg.Pool, p.cfg.ConsumerGroup, ids, projections)
	if err != nil {
		return nil, err
	}
	units := make([]*unit, len(pairs))
	for i, d := range pairs {
		units[i] = catchUp(byID[d.CampaignID], d)
		if d.Failed {
			units[i].probe()
			p.metrics.retried.WithLabelValues(d.Projection).Inc()
		}
	}
	for _, u := range units {
		delete(byID, u.lease.CampaignID)
	}
	if len(byID) > 0 { // somebody else was quicker with their pairs
		p.giveBackLeases(ctx, slices.Collect(maps.Values(byID)))
	}
	return units, nil
}
