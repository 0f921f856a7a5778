package projector

import (
	"context"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/lease"
)

// beatInterval is how often a worker records that it lives.
const beatInterval = time.Second

func (p *Projector) hold(leases []lease.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = map[string]lease.Lease{}
	}
	for _, l := range leases {
		p.held[l.CampaignID] = l
	}
	p.metrics.held.Set(float64(len(p.held)))
}

// letGo forgets units whose leases are given back, or lost.
func (p *Projector) letGo(units []*unit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range units {
		if p.held[u.lease.CampaignID].Generation == u.lease.Generation {
			delete(p.held, u.lease.CampaignID)
		}
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
		if p.held[l.CampaignID].Generation == l.Generation {
			delete(p.held, l.CampaignID)
		}
	}
	p.metrics.held.Set(float64(len(p.held)))
}

func (p *Projector) holding() []lease.Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	leases := make([]lease.Lease, 0, len(p.held))
	for _, l := range p.held {
		leases = append(leases, l)
	}
	return leases
}

// keepLeases renews what is held three times in the life of a lease, and records that the worker lives.
func (p *Projector) keepLeases(ctx context.Context) {
	renew := time.NewTicker(p.cfg.LeaseTTL / 3)
	defer renew.Stop()
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	p.beat(ctx)
	for {
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
			// One that is lost is noticed by the fence at the end of its group.
			if _, err := p.keeper.Renew(bounded, p.cfg.Pool, leases); err != nil && ctx.Err() == nil {
				p.cfg.Logger.WarnContext(ctx, "leases not renewed", "campaigns", len(leases), "error", err)
			}
			cancel()
		}
	}
}

func (p *Projector) beat(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := p.keeper.Beat(bounded, p.cfg.Pool, p.host, os.Getpid(), len(p.holding()), p.applied.Load()); err != nil && ctx.Err() == nil {
		p.cfg.Logger.WarnContext(ctx, "worker not recorded", "error", err)
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
func (p *Projector) duePairs(ctx context.Context, leases []lease.Lease) ([]*unit, error) {
	byID := make(map[string]lease.Lease, len(leases))
	ids := make([]string, len(leases))
	for i, l := range leases {
		ids[i], byID[l.CampaignID] = l.CampaignID, l
	}
	rows, err := p.cfg.Pool.Query(ctx, queryDuePairs, ids, p.cfg.ConsumerGroup, p.names)
	if err != nil {
		return nil, err
	}
	pairs, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[pair])
	if err != nil {
		return nil, err
	}
	units := make([]*unit, len(pairs))
	for i, d := range pairs {
		units[i] = catchUp(byID[d.CampaignID], d)
	}
	for _, u := range units {
		delete(byID, u.lease.CampaignID)
	}
	if len(byID) > 0 { // somebody else was quicker with their pairs
		p.giveBackLeases(ctx, slices.Collect(maps.Values(byID)))
	}
	return units, nil
}
