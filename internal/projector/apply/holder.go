package apply

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/internal/store/lease"
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

// Holder keeps the leases of this worker: it renews them, ends the work under those that are lost, and gives them back.
type Holder struct {
	*registry.Base
	Drained atomic.Bool // by an operator

	mu       sync.Mutex
	holdings map[string]*holding // by campaign
}

// NewHolder returns a holder of nothing.
func NewHolder(b *registry.Base) *Holder { return &Holder{Base: b, holdings: map[string]*holding{}} }

// Hold takes charge of leases asked for at a time, and returns those to work on: not campaigns that
// are worked on under the same generation. Claims do not wait for the disk, so a crash of the
// server can forget one, and the fence could not tell its work from that of the next claim.
func (o *Holder) Hold(leases []lease.Lease, asked time.Time) []lease.Lease {
	o.mu.Lock()
	defer o.mu.Unlock()
	fresh := make([]lease.Lease, 0, len(leases))
	for _, l := range leases {
		h := o.holdings[l.CampaignID]
		if h == nil || h.lease.Generation < l.Generation {
			// What goes on under a lease that has run out may hang, and this one may wait for it. One that has not
			// was given back by the group just committed, and the worker goes on with other campaigns; or was
			// taken, and the fence ends what goes on.
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

// Work names the function that ends the work under the units' leases.
func (o *Holder) Work(units []*Unit, drop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, u := range units {
		if h := o.holdings[u.Lease.CampaignID]; h != nil && h.lease.Generation == u.Lease.Generation {
			h.drop = drop
		}
	}
}

// renewed notes what a request for renewal at a time has prolonged, and ends the work under leases
// that have run out: it may hang on a connection that fell silent, and others may have taken over.
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

// dropExpired ends the work under a lease that has run out.
func (o *Holder) dropExpired(h *holding) {
	if h.drop == nil || h.dropped || time.Since(h.renewed) <= o.Cfg.LeaseTTL {
		return
	}
	h.drop()
	h.dropped = true
	o.Metrics.Leases.Lost.WithLabelValues(registry.LostExpired).Inc()
}

// LetGo forgets units whose leases are given back, or lost.
func (o *Holder) LetGo(units []*Unit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, u := range units {
		o.remove(u.Lease)
	}
	o.Metrics.Leases.Count.Set(float64(len(o.holdings)))
}

// GiveBack releases the leases of units that were not applied. Should that fail they expire.
func (o *Holder) GiveBack(ctx context.Context, units []*Unit) { o.GiveBackLeases(ctx, leasesOf(units)) }

// GiveBackLeases releases leases. Should that fail they expire.
func (o *Holder) GiveBackLeases(ctx context.Context, leases []lease.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.ReleaseTimeout)
	defer cancel()
	if err := o.Keeper.Release(ctx, o.Cfg.Pool, leases); err != nil {
		o.Cfg.Logger.WarnContext(ctx, "leases not given back, they will expire", "campaigns", len(leases), "error", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range leases {
		o.remove(l)
	}
	o.Metrics.Leases.Count.Set(float64(len(o.holdings)))
}

// remove forgets a lease, unless it has been acquired again since. The caller holds the lock.
func (o *Holder) remove(l lease.Lease) {
	if h := o.holdings[l.CampaignID]; h != nil && h.lease.Generation == l.Generation {
		delete(o.holdings, l.CampaignID)
	}
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

// KeepLeases renews what is held three times in the life of a lease, and records that the worker lives.
func (o *Holder) KeepLeases(ctx context.Context) {
	renew := time.NewTicker(o.Cfg.LeaseTTL / 3)
	defer renew.Stop()
	beat := time.NewTicker(min(beatInterval, o.Cfg.LeaseTTL/4)) // note_crashes tells the dead by it
	defer beat.Stop()
	loop := pulse.Of(ctx)
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
			// One that is lost is noticed by the fence at the end of its group.
			kept, err := o.Keeper.Renew(bounded, o.Cfg.Pool, leases)
			if err != nil && ctx.Err() == nil {
				o.Cfg.Logger.WarnContext(ctx, "leases not renewed", "campaigns", len(leases), "error", err)
			}
			cancel()
			o.renewed(kept, asked)
		}
	}
}

// Beat records that the worker lives. It is not cut short when the worker stops: the server might
// still do what is not waited for any more, after the record has been removed. Renewals wait for it.
func (o *Holder) Beat(ctx context.Context) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(o.Cfg.LeaseTTL/3, registry.ReleaseTimeout))
	defer cancel()
	drained, err := o.Keeper.Beat(bounded, o.Cfg.Pool, o.Host, os.Getpid(), len(o.holding()), o.Applied.Load())
	if err != nil {
		if ctx.Err() == nil {
			o.Cfg.Logger.WarnContext(ctx, "worker not recorded", "error", err)
		}
		return
	}
	if o.Drained.Swap(drained) != drained {
		o.Cfg.Logger.InfoContext(ctx, "an operator has drained the worker, or has it go on", "drained", drained)
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
