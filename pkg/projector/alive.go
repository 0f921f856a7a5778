package projector

import "time"

// promises is by when loops are back.
type promises struct {
	around time.Duration // of the dispatcher: three requests, each bounded by the life of a lease, and a wait
	step   time.Duration // of a worker, from one transaction or call of a projection to the next: what all projections have queued, and the request that ends the transaction
	kept   time.Duration // of what renews leases
}

// bounds makes the promises from the settings, with as much again to spare.
func (b *base) bounds() promises {
	return promises{
		around: 6*b.cfg.LeaseTTL + 4*b.cfg.PollInterval,
		step:   2 * (time.Duration(1+len(b.projections))*(b.longest+grace) + b.cfg.LeaseTTL + 2*releaseTimeout),
		kept:   2*b.cfg.LeaseTTL + 4*releaseTimeout,
	}
}
