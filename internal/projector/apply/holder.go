package apply

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// beatInterval is how often a worker records that it is alive.
const beatInterval = time.Second

type holding struct {
	lease   lease.Lease
	renewed time.Time // read before the last request that prolonged it
	drop    func()    // cancels the work under it; nil: none yet
	dropped bool
}

// Holder keeps this worker's leases: it renews them, cancels the work under lost ones, and gives them back.
type Holder struct {
	*registry.Base
	Drained atomic.Bool // an operator has drained the worker

	mu       sync.Mutex
	holdings map[string]*holding // by campaign
}

// NewHolder returns a holder without leases.
func NewHolder(b *registry.Base) *Holder { return &Holder{Base: b, holdings: map[string]*holding{}} }

// Hold takes charge of leases requested at asked. It returns those to work on, without campaigns
// that are worked on under the same generation: claims do not wait for the disk, so after a server
// crash a second claim can get the generation of the first, and the fence cannot tell them apart.
func (o *Holder) Hold(leases []lease.Lease, asked time.Time) []lease.Lease {
	o.mu.Lock()
	defer o.mu.Unlock()
	fresh := make([]lease.Lease, 0, len(leases))
	for _, l := range leases {
		h := o.holdings[l.CampaignID]
		if h == nil || h.lease.Generation < l.Generation {
			// Work under an expired lease may hang, and hold up the new lease: cancel it. A lease
			// that has not expired was given back by the group just committed, and its worker goes
			// on with other campaigns; or it was taken, and the fence ends its work.
			if h != nil {
				o.dropExpired(h)
			}
			o.holdings[l.CampaignID] = &holding{lease: l, renewed: asked}
			fresh = append(fresh, l)
		}
	}
	o.Metrics.Leases.Count.Set(float64(len(o.holdings)))
	return fresh
}

// Work sets the function that cancels the work under the units' leases.
func (o *Holder) Work(units []*Unit, drop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, u := range units {
		if h := o.holdings[u.Lease.CampaignID]; h != nil && h.lease.Generation == u.Lease.Generation {
			h.drop = drop
		}
	}
}

// renewed records the leases that a request at the time asked has prolonged. It cancels the work
// under expired leases: that may hang on a silent connection, and others may have taken over.
func (o *Holder) renewed(kept []lease.Lease, asked time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range kept {
		if h := o.holdings[l.CampaignID]; h != nil && h.lease.Generation == l.Generation {
			h.renewed = asked
		}
	}
	for _, h := range o.holdings {
		o.dropExpired(h)
	}
}

func (o *Holder) dropExpired(h *holding) {
	if h.drop == nil || h.dropped || time.Since(h.renewed) <= o.Cfg.LeaseTTL {
		return
	}
	h.drop()
	h.dropped = true
	o.Metrics.Leases.Lost.WithLabelValues(registry.LostExpired).Inc()
}

// LetGo forgets units whose leases are given back or lost.
func (o *Holder) LetGo(units []*Unit) { o.remove(leasesOf(units)) }

// GiveBack releases the leases of units that were not applied. If that fails, they expire.
func (o *Holder) GiveBack(ctx context.Context, units []*Unit) { o.GiveBackLeases(ctx, leasesOf(units)) }

// GiveBackLeases releases leases. If that fails, they expire.
func (o *Holder) GiveBackLeases(ctx context.Context, leases []lease.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.ReleaseTimeout)
	defer cancel()
	if err := o.Keeper.Release(ctx, o.Cfg.Pool, leases); err != nil {
		o.Cfg.Logger.WarnContext(ctx, "leases not released, they will expire", "campaigns", len(leases), "error", err)
	}
	o.remove(leases)
}

// remove forgets leases, except those that have been acquired again since.
func (o *Holder) remove(leases []lease.Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range leases {
		if h := o.holdings[l.CampaignID]; h != nil && h.lease.Generation == l.Generation {
			delete(o.holdings, l.CampaignID)
		}
	}
	o.Metrics.Leases.Count.Set(float64(len(o.holdings)))
}

func (o *Holder) holding() []lease.Lease {
	o.mu.Lock()
	defer o.mu.Unlock()
	leases := make([]lease.Lease, 0, len(o.holdings))
	for _, h := range o.holdings {
		leases = append(leases, h.lease)
	}
	return leases
}

// KeepLeases renews all leases three times in a lease's life, and records that the worker is alive.
func (o *Holder) KeepLeases(ctx context.Context) {
	renew := time.NewTicker(o.Cfg.LeaseTTL / 3)
	defer renew.Stop()
	beat := time.NewTicker(min(beatInterval, o.Cfg.LeaseTTL/4)) // note_crashes finds dead workers by it
	defer beat.Stop()
	loop := loops.Of(ctx)
	defer loop.Rest()
	for {
		loop.Within(o.Promises.Kept)
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			o.Beat(ctx)
		case <-renew.C:
			leases := o.holding()
			if len(leases) == 0 {
				continue
			}
			bounded, cancel := context.WithTimeout(ctx, o.Cfg.LeaseTTL/3)
			asked := time.Now()
			// The fence at the end of a group notices a lost lease.
			kept, err := o.Keeper.Renew(bounded, o.Cfg.Pool, leases)
			if err != nil && ctx.Err() == nil {
				o.Cfg.Logger.WarnContext(ctx, "leases not renewed", "campaigns", len(leases), "error", err)
			}
			cancel()
			o.renewed(kept, asked)
		}
	}
}

// Beat records that the worker is alive. Stopping the worker does not cancel it: the server might
// still run the request after Forget has removed the record. Renewals wait for Beat.
func (o *Holder) Beat(ctx context.Context) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(o.Cfg.LeaseTTL/3, registry.ReleaseTimeout))
	defer cancel()
	drained, err := o.Keeper.Beat(bounded, o.Cfg.Pool, o.Host, os.Getpid(), len(o.holding()), o.Applied.Load())
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil:
		o.Cfg.Logger.WarnContext(ctx, "worker not recorded", "error", err)
	case o.Drained.Swap(drained) != drained:
		o.Cfg.Logger.InfoContext(ctx, "an operator drained or undrained the worker", "drained", drained)
	}
}

// Forget removes the worker's record.
func (o *Holder) Forget(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.ReleaseTimeout)
	defer cancel()
	if err := o.Keeper.Forget(ctx, o.Cfg.Pool); err != nil {
		o.Cfg.Logger.WarnContext(ctx, "worker's record stays for a day", "error", err)
	}
}
