package projector

import "time"

// Stuck answers the loops of Run that are not back by when they must be, whatever the database does: every wait for it is bounded. It is for liveness probes: a process with one that is
// stuck is of no more use, and is to be started anew. Before Run has registered, and after it has returned, there are none.
func (p *Projector) Stuck() []string { return p.pulse.Stuck(time.Now()) }

// promises is by when loops are back.
type promises struct {
	around time.Duration // of the dispatcher: three requests, each bounded by the life of a lease, and a wait
	step   time.Duration // of a worker, from one transaction or call of a projection to the next: what all projections have queued, and the request that ends the transaction
	kept   time.Duration // of what renews leases
}

// bounds makes the promises from the settings, with as much again to spare.
func (p *Projector) bounds() promises {
	return promises{
		around: 6*p.cfg.LeaseTTL + 4*p.cfg.PollInterval,
		step:   2 * (time.Duration(1+len(p.projections))*(p.longest+grace) + p.cfg.LeaseTTL + 2*releaseTimeout),
		kept:   2*p.cfg.LeaseTTL + 4*releaseTimeout,
	}
}
