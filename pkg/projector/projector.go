package projector

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/lease"
)

// releaseTimeout bounds the giving back of leases when work is dropped or the projector stops.
const releaseTimeout = 5 * time.Second

// Projector keeps the read models of one consumer group up to date. Several may run in one process or in many; they share the campaigns among them.
type Projector struct {
	cfg         Config
	projections []*known
	known       map[string]*known
	names       []string
	metrics     *metrics
	keeper      lease.Keeper
	host        string
	searchPath  string
	wake        chan struct{} // somebody appended
	free        chan struct{} // a worker has finished an assignment
	entered     atomic.Bool   // the registry knows its projections
	listening   atomic.Bool   // notifications arrive
	draining    bool          // Drain, not Run
	slabs       slabs

	cursor       string    // of the dispatcher
	lookedBehind time.Time // by the dispatcher
	average      float64   // events a campaign in the groups of late
	applied      atomic.Int64
	working      atomic.Int64 // assignments not finished

	mu   sync.Mutex
	held map[string]*holding // by campaign
}

// Run registers the projections and applies events until ctx is cancelled. It then finishes or rolls back what it is applying, gives its leases back and
// returns nil. Failures of the database are waited out; an error is returned only for what waiting cannot mend: the registration is refused.
func (p *Projector) Run(ctx context.Context) error {
	if err := p.registerPatiently(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	// A group under way when ctx ends may still finish, and its leases live, for a while.
	patient, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var workers, others sync.WaitGroup
	work := make(chan []*unit)
	for range p.cfg.Concurrency {
		workers.Go(func() { p.worker(patient, ctx.Done(), work) })
	}
	others.Go(func() { p.keepLeases(patient) })
	if !p.cfg.NoListen {
		others.Go(func() { p.listen(ctx) })
	}
	p.dispatch(ctx, work)
	close(work)
	expire := time.AfterFunc(p.cfg.ShutdownTimeout, stop)
	defer expire.Stop()
	workers.Wait()
	stop()
	others.Wait()
	p.forget(ctx)
	return nil
}

// Drain registers the projections and applies all that is there to apply, then returns the number of events applied, counting for each pair that catches up
// as well. Campaigns that other workers hold, and retries that are not due, are left to them. It is for tests, tools and benchmarks.
func (p *Projector) Drain(ctx context.Context) (int, error) {
	if err := p.Register(ctx); err != nil {
		return 0, err
	}
	p.draining = true
	defer func() { p.draining = false }()
	before := p.applied.Load()
	patient, stop := context.WithCancel(ctx)
	defer stop()
	var keeper sync.WaitGroup
	keeper.Go(func() { p.keepLeases(patient) })
	g, inner := errgroup.WithContext(patient)
	work := make(chan []*unit)
	for range p.cfg.Concurrency {
		g.Go(func() error {
			for units := range work {
				if err := p.process(inner, inner.Done(), units); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(work)
		return p.drain(inner, work)
	})
	err := g.Wait()
	stop()
	keeper.Wait()
	p.forget(ctx)
	return int(p.applied.Load() - before), err
}

// drain claims until two claims in a row, with no work under way between them, have found nothing.
func (p *Projector) drain(ctx context.Context, work chan<- []*unit) error {
	for quiet := 0; quiet < 2; {
		idle := p.working.Load() == 0
		n, _, err := p.claim(ctx, work)
		switch {
		case err != nil:
			return err
		case n > 0:
			quiet = 0
		case idle:
			quiet++
		default:
			quiet = 0
			pause(ctx, time.Millisecond)
		}
	}
	return nil
}

// registerPatiently waits for the database.
func (p *Projector) registerPatiently(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		err := p.Register(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !IsInfrastructure(err) {
			return err
		}
		wait := p.backoff(attempt)
		p.cfg.Logger.WarnContext(ctx, "cannot register yet", "error", err, "wait", wait)
		if !pause(ctx, wait) {
			return nil
		}
	}
}
